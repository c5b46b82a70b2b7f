"""What workers ask of the in-process engine: one thread, tables in, rows out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.local import asof
from juncture.local.columns import gather
from juncture.local.scan import Source, TableSource
from juncture.local.threads import Threads
from juncture.spec.asof import Asof

__all__ = ["join", "match", "take"]

Ints = npt.NDArray[np.int64]


def match(spec: Asof, left: pa.Table, right: pa.Table | Source) -> tuple[Ints, Ints]:
    """Return the numbers of the rows that match, by left row, best first."""
    right = _source(right)
    matches = asof.match(spec.resolve(left.schema, right.schema), TableSource(left), right, threads=1)
    return matches.left_rows, matches.right_rows


def join(spec: Asof, left: pa.Table, right: pa.Table | Source) -> pa.Table:
    """Return the joined rows."""
    right = _source(right)
    table, _ = asof.join(spec.resolve(left.schema, right.schema), TableSource(left), right, threads=1)
    return table


def _source(table: pa.Table | Source) -> Source:
    return TableSource(table) if isinstance(table, pa.Table) else table


def take(source: Source, columns: list[str], rows: Ints) -> pa.Table:
    """Return columns of some rows, in any order and repeated ones included."""
    with Threads(1) as alone:
        return pa.table(gather(source, columns, rows, alone), names=columns)
