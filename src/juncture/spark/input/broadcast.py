"""A broadcast side: sent with the tasks' code, or read from its files by each task."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa

from juncture.errors import PlanError
from juncture.spark.exchange.exchange import collected
from juncture.spark.input.files import FileSide, merged
from juncture.spark.input.frame import SparkSide
from juncture.spark.tasks.broadcast_table import BroadcastTable, FileTable, send

SENT_BYTES_MAX = 96 << 20
"""Most bytes sent with a task's code: a message of Spark Connect is limited to 128 MiB in total."""


def broadcast_side(side: SparkSide, columns: list[str], name: str) -> tuple[BroadcastTable, list[str]]:
    """Return a side as a broadcast table, and the jobs that ran."""
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
