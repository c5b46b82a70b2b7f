"""Packets between Spark and its stateful operator, and checks of its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import pyarrow as pa

from juncture.errors import StateError
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content

CHECKPOINT = "the checkpoint of this query"


def received(frame: pd.DataFrame) -> pa.RecordBatch:
    """Return packets as they were sent."""
    columns = [[0] * len(frame), *(frame[name].tolist() for name in PACKET_SCHEMA.names[1:])]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, PACKET_SCHEMA, strict=True)],
        schema=PACKET_SCHEMA,
    )


def sent(content: Content, cells: Sequence[pa.Buffer | None], metrics: Mapping[str, float | None]) -> pd.DataFrame:
    """Return packets as a pandas DataFrame, with metrics by name."""
    columns = {
        "content": [str(content)] * len(cells),
        "rows": [None if cell is None else cell.to_pybytes() for cell in cells],
    }
    return pd.DataFrame(columns | {name: [value] * len(cells) for name, value in metrics.items()})


def check_buckets(found: int, expected: int) -> None:
    """Raise an error if the state has another number of buckets."""
    if found != expected:
        raise StateError(
            f"The state in {CHECKPOINT} has {found} partitions, but this join was planned for {expected}. Set "
            f"spark.sql.shuffle.partitions to {found} before planning the join, as when the query first started.",
            name="JN-STATE-PARTITIONS",
        )
