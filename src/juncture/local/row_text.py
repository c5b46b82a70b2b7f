"""A row as errors show it, by the columns that a join compares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from juncture.columnar.shown import shown
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import select
from juncture.spec.computed import Key, column_of


def row_text(source: Source, keys: Iterable[Key], row: int, context: JoinContext) -> str:
    """Return what a row has in columns and expressions, as in ``symbol="A", ts=5``."""
    # A task may have a column without those that a join shows it with.
    columns = {key: name for key in keys if (name := column_of(source.schema, key)) is not None}
    values = select(source, list(columns.values()), np.array([row], np.int64), context)
    return ", ".join(f"{key}={shown(column.chunk(0))}" for key, column in zip(columns, values, strict=True))
