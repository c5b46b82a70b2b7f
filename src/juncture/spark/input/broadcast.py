"""A side of a join as every task has it whole: sent along with the task's code, or read from its files by each."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa

from juncture.errors import PlanError
from juncture.spark.exchange.exchange import collected
from juncture.spark.input.files import FileSide, merged
from juncture.spark.input.frame import SparkSide
from juncture.spark.tasks.broadcast_table import BroadcastTable, FileTable, send

SENT_BYTES_MAX = 96 << 20
"""The most that goes along with a task's code: a message of Spark Connect may have 128 MiB, other things included."""


def broadcast_side(side: SparkSide, columns: list[str], name: str) -> tuple[BroadcastTable, list[str]]:
    """Return a side as tasks have it whole, and the jobs that this took."""
    if isinstance(side, FileSide):
        return FileTable(merged(side.units()), side.footers.file_schema, side.footers.num_rows, uuid4().hex), []
    frame, feed = side.rows(columns)
    chunks = list(feed.chunks(collected(frame).to_batches()))
    table = pa.concat_tables([feed.schema.empty_table(), *chunks])
    sent = send(table)
    if len(sent.cell) > SENT_BYTES_MAX:
        raise PlanError(
            f"The {name} side has {table.num_rows:,} rows in {len(sent.cell):,} bytes, but at most {SENT_BYTES_MAX:,} "
            "bytes can be sent with a task's code. Pass algorithm='auto', 'hash' or 'range'.",
            name="JN-BROADCAST-SIZE",
        )
    return sent, [f"collected the {name} side: {table.num_rows:,} rows, {len(sent.cell):,} bytes"]
