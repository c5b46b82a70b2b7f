"""A row as errors show it, by the columns that a join compares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from juncture.columnar.shown import shown
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import select
from juncture.spec.expression import Key
from juncture.spec.resolved import Resolved


def row_text(source: Source, join: Resolved, keys: Iterable[Key], row: int, context: JoinContext) -> str:
    """Return what a left row has in columns and expressions, as in ``symbol="A", ts=5``."""
    names = {key: join.name_of("left", key) for key in keys}
    # A task may lack columns from which compared values are computed.
    columns = {key: name for key, name in names.items() if name is not None and name in source.schema.names}
    values = select(source, list(columns.values()), np.array([row], np.int64), context)
    return ", ".join(f"{key}={shown(column.chunk(0))}" for key, column in zip(columns, values, strict=True))
