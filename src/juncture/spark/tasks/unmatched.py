"""Rows without a match, where others than the partition that owns them may have matched them: a second shuffle.

The partition that owns such a row sends it on as *unmatched*. Each partition that has a copy of it and a match for that
sends *match marks* to the owner: columns, and the values that a row has in them if it is matched. Of the rows that
agree in these, all have a match or none has, so that no row needs a number, and a task that runs again says the same.
Which columns decide is for each kind of join to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.kernels.array_types import Mask
from juncture.runtime.context import JoinContext
from juncture.spark.tasks import engine
from juncture.spark.tasks.packets import Content, read_packets
from juncture.spark.tasks.placement import row_codes
from juncture.spark.tasks.stage import OutputStage
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


@dataclass(frozen=True)
class ResolveUnmatched(OutputStage):
    """Brings rows without a match and match marks together.

    Attributes
    ----------
    join
        The join, with the schemas of the rows as they come in packets. Those without a match may have further columns,
        which marks name.
    """

    join: Resolved

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        """Yield rows that are ready as they come, and then the others as the join shows them."""
        kept = defaultdict[tuple[str | None, Content], list[pa.Table]](list)
        for packet in read_packets(batches):
            if packet.content is Content.OUTPUT:
                yield packet.rows
            else:
                kept[packet.side, packet.content].append(packet.rows)
        schemas: dict[Side, pa.Schema] = {"left": self.join.left_schema, "right": self.join.right_schema}
        for side, schema in schemas.items():
            if not kept[side, Content.UNMATCHED]:
                continue
            rows = pa.concat_tables(kept[side, Content.UNMATCHED]).unify_dictionaries()
            matched = _marked(rows, kept[side, Content.MARK])
            rows = rows.filter(pa.array(matched if self.join.how == "semi" else ~matched)).select(schema.names)
            if self.join.how in ("semi", "anti"):
                yield rows
            else:
                yield from engine.unmatched(self.join, side, rows, context)


def _marked(rows: pa.Table, marks: list[pa.Table]) -> Mask:
    """Tell which rows agree with a mark."""
    marked = np.zeros(rows.num_rows, np.bool_)
    by_columns = defaultdict[tuple[str, ...], list[pa.Table]](list)
    for mark in marks:
        by_columns[tuple(mark.column_names)].append(mark)
    for names, tables in by_columns.items():
        codes = row_codes(pa.concat_tables([rows.select(names), *tables]).unify_dictionaries())
        marked |= np.isin(codes[: rows.num_rows], codes[rows.num_rows :])
    return marked
