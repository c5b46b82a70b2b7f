"""Sort keys of rows that tie."""

from __future__ import annotations

import pyarrow as pa

from juncture.columnar.tie_order import order_keys
from juncture.kernels.array_types import Ints
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import gather


def tie_keys(source: Source, columns: tuple[str, ...], pointers: Ints, context: JoinContext) -> list[Ints]:
    """Return sort keys of the rows at pointers, the most significant first. Greater keys win ties, then later rows."""
    table = pa.table(gather(source, columns, pointers, context), names=list(map(str, range(len(columns)))))
    return [*order_keys(table), pointers]
