"""The order among rows of a source that tie, as numbers to sort them by."""

from __future__ import annotations

import pyarrow as pa

from juncture.columnar.tie_order import order_keys
from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import gather


def tie_keys(source: Source, columns: tuple[str, ...], pointers: Ints, context: JoinContext) -> list[Ints]:
    """Return numbers to order the rows by that pointers name, the most significant first; greater ones win ties.

    Of rows that are equal, the later one wins.
    """
    table = pa.table(gather(source, columns, pointers, context), names=list(map(str, range(len(columns)))))
    return [*order_keys(table), pointers]
