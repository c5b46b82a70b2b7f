"""SQL views over streams of changes in the stateful operator. One bucket has all rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from pyspark.sql.types import StructType

from juncture.columnar.arrays import array_of
from juncture.errors import SpecError
from juncture.hosting.change_frames import ChangeSide, formatted
from juncture.hosting.changes import state_of
from juncture.hosting.hosted import WEIGHT_FIELD, check_store, stateful
from juncture.hosting.hosted_join import Hosted, LoadedBatch, State, StoredBatch
from juncture.hosting.watermarks import watermarks
from juncture.incremental.changes.change_batch import (
    ChangeFormat,
    read_changes,
    rows_within,
    write_changes,
    written_schema,
)
from juncture.incremental.changes.source import Source
from juncture.incremental.dataflow import ANSWER
from juncture.incremental.state.records import Position
from juncture.incremental.state.run import Delta, Run
from juncture.incremental.view import View, ViewSetup, described
from juncture.kernels.array_types import Ints
from juncture.matching.order import Order
from juncture.ordered.duration import format_duration
from juncture.runtime.context import JoinContext
from juncture.spark.exchange import packets
from juncture.spark.schema import check_times, spark_schema
from juncture.spark.session.session import resources
from juncture.spark.tasks.feed import Feed
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.stage import PacketStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBSERVED = "juncture_view_{view}"
"""Name of the metrics of a view in ``observedMetrics``."""


def plan_view(
    frames: Mapping[str, DataFrame], sql: str, *, output: ChangeFormat, unmatched_deletes: Any, final_rows: Any
) -> DataFrame:
    """Return the streaming DataFrame of the changes of a view. Watermarks are the orders of its sources."""
    sides = {name: ChangeSide.of(frame, name) for name, frame in frames.items()}
    sources = {name: Source(each.schema, order=_order_of(each)) for name, each in sides.items()}
    hosted = HostedView(ViewSetup(sql, sources, "weight", unmatched_deletes, final_rows))
    view = hosted.bucket(None)
    written_schema(view.answer_schema, output)
    session = next(iter(sides.values())).session
    check_store(session)
    memory_bytes = resources(session).memory_bytes
    sent = []
    for name, each in sides.items():
        check_times(each.spark_schema, each.spark_schema, session)
        columns = view.columns(name)
        if columns:
            frame, feed = each.rows(columns)
            sent.append(packets(frame, ToView(feed, name, columns, memory_bytes=memory_bytes)))
    if not sent:
        raise SpecError(f"The query reads none of {', '.join(map(repr, frames))}.", name="JN-ARGUMENT-VALUE")
    schema = StructType([*spark_schema(view.answer_schema).fields, WEIGHT_FIELD])
    return formatted(stateful(hosted, sent, 1, schema, memory_bytes), output)


def _order_of(side: ChangeSide) -> Order | None:
    for name, delay_ms in watermarks(side.spark_schema).items():
        return Order(name, delay=format_duration(delay_ms * 10**6))
    return None


@dataclass(frozen=True)
class ToView(PacketStage):
    """Sends the changes of a source to the view."""

    feed: Feed
    source: str
    columns: Sequence[str]

    def packets(self, batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        """Yield the packets of one task."""
        for chunk in self.feed.chunks(batches):
            table = chunk.combine_chunks()
            # Rows within the columns "before" and "after" have all columns.
            for rows, weights in read_changes(table, rows_within(table.schema, self.source)[0], self.source):
                changes = write_changes(rows.select(self.columns), weights, "weight")
                yield Packet(0, Content.OWNED, pa.Table.from_batches([changes]), self.source)


@dataclass(frozen=True)
class HostedView(Hosted):
    """A view in the stateful operator."""

    setup: ViewSetup
    version = "views 1"
    kind = "view"
    state_type = np.int64

    @property
    def metrics(self) -> dict[str, str]:
        """New changes, stored rows, late changes, unmatched deletes, and changes of the result."""
        return dict.fromkeys(["input_rows", "state_rows", "late_rows", "unmatched_deletes", "output_rows"], "long")

    def described(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        return described(self.setup)

    def bucket(self, progress: Mapping[str, Any] | None) -> ViewBucket:
        """Return a view without rows, with the progress of an earlier one."""
        return ViewBucket(self.setup, progress)

    def observed(self, results: DataFrame) -> DataFrame:
        """Return results unchanged, with metrics that Spark reports."""
        return results.observe(OBSERVED.format(view=token_hex(4)), *(F.sum(name).alias(name) for name in self.metrics))


class ViewBucket(View):
    """A view whose rows are in a state store between micro-batches."""

    def __init__(self, setup: ViewSetup, progress: Mapping[str, Any] | None) -> None:
        super().__init__(setup)
        self._tables = self._runtime.dataflow.tables
        self._is_restored = progress is None
        if progress is not None:
            self._runtime.position = Position(**progress["position"])
            for name, table in self._tables.items():
                table.recall_all(progress["notes"].get(name))

    @property
    def names(self) -> Sequence[str]:
        """The tables of stored rows of all operators."""
        return list(self._tables)

    def columns(self, source: str) -> list[str]:
        """Return the columns of a source that the query reads."""
        scan = self._graph.scans.get(source.lower())
        read = set() if scan is None else {column.lower() for column, _ in scan.columns}
        return [name for name in self._plan.setup.sources[source].schema.names if name.lower() in read]

    def finish_loading(self) -> None:
        """Restore what operators derive from their rows, after these were loaded."""
        if not self._is_restored:
            for table in self._tables.values():
                table.loaded()
            self._runtime.dataflow.restored()
            self._is_restored = True

    def step(self, packets: Iterable[Packet]) -> list[pa.RecordBatch]:
        """Apply the changes of a micro-batch as an epoch, and return those of the result."""
        self.finish_loading()
        self._before, self._new_rows = self._runtime.position, 0
        changes: dict[str, list[pa.Table]] = {}
        for packet in packets:
            assert packet.side is not None
            changes.setdefault(packet.side, []).append(packet.rows)
            self._new_rows += packet.rows.num_rows
        sources = self._plan.setup.sources
        streams = {
            name.lower(): self._runtime.dataflow.read(
                name.lower(), tables, pa.schema([sources[name].schema.field(each) for each in self.columns(name)]), name
            )
            for name, tables in changes.items()
        }
        return self._runtime.apply(streams, None)[ANSWER]

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the last step."""
        before, after = self._before, self._runtime.position
        return {
            "input_rows": self._new_rows,
            "state_rows": sum(table.arrangement.rows for table in self._tables.values()),
            "late_rows": sum(after.late.values()) - sum(before.late.values()),
            "unmatched_deletes": sum(after.missing.values()) - sum(before.missing.values()),
        }

    def progress(self) -> dict[str, Any]:
        """Return the progress as plain data, without rows."""
        notes = {name: table.all_notes() for name, table in self._tables.items()}
        return {"position": asdict(self._runtime.position), "notes": notes}

    def load(self, name: str, batch: pa.RecordBatch, state: State) -> LoadedBatch:
        """Store rows from the state store: columns, hash and codes. The lines of the state are weights and counts."""
        table = self._tables[name]
        width, lines = len(table.arrangement.schema), [np.asarray(column) for column in batch.columns]
        rows = pa.RecordBatch.from_arrays(batch.columns[:width], schema=table.arrangement.schema)
        codes = np.stack(lines[width + 1 :]) if len(lines) > width + 1 else np.zeros((0, len(rows)), np.int64)
        # The row numbers are passed as weights, so they return the order of the delta.
        delta = Delta.of(rows, np.arange(len(rows)), table.keys_of(rows), codes, lines[width])
        order = delta.weights
        counts = np.take(state[1:], order, axis=1).astype(np.int64)
        run = Run(replace(delta, weights=state[0][order].astype(np.int64)), counts, table.arrangement.matching)
        table.arrangement.add(run)
        return LoadedBatch(run, order)

    def batches(self, name: str) -> Iterator[StoredBatch]:
        """Yield the stored rows of a table."""
        for run in self._tables[name].arrangement.memory:
            yield StoredBatch(run, partial(state_of, run))

    def rows(self, stored: StoredBatch, positions: Ints) -> pa.RecordBatch:
        """Return some rows of a run, as `load` receives them."""
        assert isinstance(stored.source, Run)
        some = stored.source.at(positions)
        columns = [*some.batch.columns, *(array_of(line, pa.int64()) for line in [some.hashes, *some.codes])]
        return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
