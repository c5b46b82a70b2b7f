"""The stateful processor of hosted joins and views: one bucket per key, with its state in Spark's state store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from juncture.errors import JunctureError, StateError
from juncture.hosting.decoded import DecodedState, decoded_folder
from juncture.hosting.hosted_join import Bucket, Hosted
from juncture.hosting.stored_rows import StoredRows, ValueSizes
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content, error_packet, read_packets
from juncture.spark.tasks.stage import freeze_imports
from juncture.streams.checkpoint import to_ipc

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues


class JoinProcessor(StatefulProcessor):
    """Joins the rows of buckets."""

    def __init__(self, hosted: Hosted, buckets: int, sizes: ValueSizes | None = None) -> None:
        self._hosted = hosted
        self._buckets = buckets
        self._sizes = sizes or ValueSizes()

    @property
    def columns(self) -> str:
        """The columns of the results: packets and metrics."""
        metrics = (f"{name} {of}" for name, of in self._hosted.metrics.items())
        return ", ".join(["content string, rows binary", *metrics])

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the state variables."""
        self._progress = handle.getValueState("progress", "progress string")
        self._values = handle.getMapState("tables", "name string", "rows binary")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - the state of the bucket has its key
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Yield the results of the packets of one bucket."""
        freeze_imports()
        try:
            bucket, stored_rows, decoded = self.restored()
            batches = bucket.step(read_packets(map(_received, rows)))
            self._save(bucket, stored_rows, decoded)
        except JunctureError as error:
            yield self._sent(Content.ERROR, [to_ipc(error_packet(error).rows)])
            return
        # Spark cannot convert frames without rows.
        if batches:
            yield self._sent(Content.OUTPUT, [to_ipc(pa.Table.from_batches([batch])) for batch in batches])
        output_rows = sum(batch.num_rows for batch in batches)
        yield self._sent(Content.EMPTY, [None], {**bucket.metrics(), "output_rows": output_rows})

    def close(self) -> None:
        """Do nothing: all state is in the state store."""

    def restored(self) -> tuple[Bucket[Any], StoredRows, DecodedState | None]:
        """Return the bucket after the last micro-batch, its rows in the state store, and what keeps both decoded."""
        stored = self._progress.get()
        saved = {} if stored is None else json.loads(stored[0])
        if stored is not None:
            self._check(saved)
        decoded, shared, local = None, self._hosted.shared, decoded_folder()
        if shared is not None and local is not None:
            decoded = DecodedState(local, [*shared, self._values], saved.get("decoded"))
            state = decoded.load()
            if state is not None:
                return *state, decoded
        bucket = self._hosted.bucket(saved.get("progress"))
        stored_rows = StoredRows(self._values, self._hosted.state_type, self._sizes)
        stored_rows.read(bucket, saved.get("rows", {}))
        return bucket, stored_rows, decoded

    def _check(self, saved: Mapping[str, Any]) -> None:
        """Raise an error if a checkpoint belongs to another join or version."""
        kind = self._hosted.kind
        if saved.get("version") != self._hosted.version:
            raise StateError(
                f"The state in the checkpoint of this query belongs to another kind of {kind}, or was written by "
                "another version of Juncture. Start the query with that version, or with a new checkpoint and output.",
                name="JN-CHECKPOINT-MISMATCH",
            )
        for name, value in self._hosted.described().items():
            if saved["join"].get(name) != value:
                raise StateError(
                    f"The state in the checkpoint of this query belongs to another {kind}: its {name} is "
                    f"{saved['join'].get(name)}, but this {kind} has {value}. Start this {kind} with a new checkpoint "
                    "and output.",
                    name="JN-CHECKPOINT-MISMATCH",
                )
        if saved["buckets"] != self._buckets:
            raise StateError(
                f"The state in the checkpoint of this query has {saved['buckets']} partitions, but this join was "
                f"planned for {self._buckets}. Set spark.sql.shuffle.partitions to {saved['buckets']} before planning "
                "the join, as when the query first started.",
                name="JN-STATE-PARTITIONS",
            )

    def _save(self, bucket: Bucket[Any], stored_rows: StoredRows, decoded: DecodedState | None) -> None:
        saved = {
            "version": self._hosted.version,
            "join": self._hosted.described(),
            "buckets": self._buckets,
            "progress": bucket.progress(),
            "rows": stored_rows.write(bucket),
        }
        if decoded is not None and stored_rows.rows >= self._sizes.decoded_rows:
            saved["decoded"] = decoded.save((bucket, stored_rows))
        self._progress.update((json.dumps(saved),))

    def _sent(
        self, content: Content, cells: Sequence[pa.Buffer | None], metrics: Mapping[str, float | None] | None = None
    ) -> pd.DataFrame:
        """Return packets as a pandas DataFrame, with metrics by name."""
        columns = {
            "content": [str(content)] * len(cells),
            "rows": [None if cell is None else cell.to_pybytes() for cell in cells],
        }
        # Spark reports sums of these, so packets without metrics have zeros.
        defaults = {name: 0 if of == "long" else None for name, of in self._hosted.metrics.items()}
        values = defaults | dict(metrics or {})
        return pd.DataFrame(columns | {name: [value] * len(cells) for name, value in values.items()})


def _received(frame: pd.DataFrame) -> pa.RecordBatch:
    columns = [[0] * len(frame), *(frame[name].tolist() for name in PACKET_SCHEMA.names[1:])]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, PACKET_SCHEMA, strict=True)],
        schema=PACKET_SCHEMA,
    )
