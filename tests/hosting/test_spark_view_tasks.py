"""The tasks of views on Spark, without Spark: after every micro-batch, DuckDB's answer over the tables as they are."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from incremental.view.test_partitions import QUERIES as WINDOWS
from incremental.view.test_queries import QUERIES
from juncture.errors import StateError
from juncture.hosting.processor import JoinProcessor
from juncture.hosting.stored_rows import ValueSizes
from juncture.hosting.views import HostedView, ToView, ViewBucket
from juncture.incremental.view import ViewSetup
from juncture.spark.tasks.feed import BatchFeed
from juncture.spark.tasks.packets import PACKET_SCHEMA, Content, Packet, read_packets, write_packets
from support.hosting import Handle
from support.viewing import SCHEMAS, Viewed, check


class ViewInTasks:
    """A view whose epochs are micro-batches, and whose rows are in dictionaries between them."""

    offset = None

    def __init__(self, setup: ViewSetup, chance: random.Random) -> None:
        self.hosted, self.chance = HostedView(setup), chance
        self.state, self.epoch = Handle(), 0
        self.metrics: list[dict[str, int]] = []

    def processor(self) -> JoinProcessor:
        sizes = ValueSizes(part_bytes=1 << 10, block_rows=2)
        processor: JoinProcessor = pickle.loads(pickle.dumps(JoinProcessor(self.hosted, 1, sizes)))
        processor.init(self.state)
        return processor

    def packets(self, source: str, changes: pa.Table) -> list[Packet]:
        columns = self.hosted.bucket(None).columns(source)
        changes = changes.select([*columns, "_weight"])
        cut = self.chance.randint(0, changes.num_rows)
        stage = ToView(BatchFeed(changes.schema), source, columns, memory_bytes=1 << 26)
        packets: list[Packet] = []
        for part in (changes.slice(0, cut), changes.slice(cut)) if columns else ():
            packets += read_packets(list(pickle.loads(pickle.dumps(stage))(part.to_batches())))
        return packets

    def apply(self, *, offset: Any = None, **changes: pa.Table) -> list[pa.RecordBatch]:  # noqa: ARG002 - as for views
        packets = [packet for source, table in changes.items() for packet in self.packets(source, table)]
        self.chance.shuffle(packets)
        if self.chance.random() < 0.3:
            # The attempt is not committed.
            before = copy.deepcopy(self.state)
            self.given(packets)
            self.state = before
        self.epoch += 1
        return self.given(packets)

    populate = apply

    def given(self, packets: list[Packet]) -> list[pa.RecordBatch]:
        frames = (batch.to_pandas()[PACKET_SCHEMA.names[1:]] for batch in write_packets(packets))
        batches: list[pa.RecordBatch] = []
        for frame in self.processor().handleInputRows((0,), frames, None):
            columns = {"target": [0] * len(frame), "side": [None] * len(frame)}
            columns |= {name: frame[name].tolist() for name in ("content", "rows")}
            arrays = [pa.array(columns[each.name], each.type) for each in PACKET_SCHEMA]
            for packet in read_packets([pa.record_batch(arrays, schema=PACKET_SCHEMA)]):
                batches += packet.rows.to_batches() if packet.content is Content.OUTPUT else []
            if (frame["content"] == Content.EMPTY).any():
                self.metrics += frame.drop(columns=["content", "rows"]).to_dict("records")
        return batches

    def result(self) -> pa.Table:
        bucket, *_ = self.processor().restored()
        assert isinstance(bucket, ViewBucket)
        bucket.finish_loading()
        return bucket.result()

    def close(self) -> None:
        """Do nothing."""


class ViewedInTasks(Viewed):
    """A view in tasks."""

    def opened(self) -> Any:
        sources = {name: jn.Source(schema) for name, schema in SCHEMAS.items()}
        return ViewInTasks(ViewSetup(self.query, sources), self.chance)

    def fail(self, changes: dict[str, pa.Table]) -> None:
        """Attempts that are not committed are tried in each epoch."""


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", QUERIES)
def test_queries(name):
    check(ViewedInTasks(QUERIES[name], 1, None))


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    check(ViewedInTasks(WINDOWS[name], 1, None))


def test_sums_whose_digits_become_more():
    query = "SELECT k, sum(f) AS total FROM a GROUP BY k"
    view = ViewInTasks(ViewSetup(query, {"a": jn.Source(SCHEMAS["a"])}), random.Random(1))

    def changes(exponents: list[int], weight: int = 1) -> pa.Table:
        rows = [(k, 0, "", None, (k + 1.1) * 10.0**each) for k in range(5) for each in exponents]
        columns = [
            pa.array(column, each.type) for column, each in zip(zip(*rows, strict=True), SCHEMAS["a"], strict=True)
        ]
        table = pa.table(columns, schema=SCHEMAS["a"])
        return table.append_column("_weight", pa.array([weight] * len(rows), pa.int64()))

    for exponent in (0, 100, -200, 150):
        view.apply(a=changes([exponent]))
    view.apply(a=changes([100, -200, 150], -1))
    assert {row["k"]: row["total"] for row in view.result().to_pylist()} == {k: k + 1.1 for k in range(5)}


def test_rows_are_forgotten_behind_a_watermark():
    schema = pa.schema({"ts": pa.int64(), "k": pa.int64()})
    source = jn.Source(schema, order=jn.Order("ts", delay=10))
    query = "SELECT ts // 10 AS tens, sum(k) AS n FROM a GROUP BY ALL"
    view = ViewInTasks(ViewSetup(query, {"a": source}, final_rows="forget"), random.Random(1))
    given = []
    for first in range(0, 100_000, 1000):
        table = pa.table({"ts": range(first, first + 1000), "k": [1] * 1000}, schema=schema)
        given += view.given(_packets("a", table))
    late = pa.table({"ts": [5], "k": [1]}, schema=schema)
    assert view.given(_packets("a", late)) == []
    assert sum(view.metrics[-1][name] for name in ("late_rows", "input_rows")) == 2
    assert view.metrics[-1]["state_rows"] < 10_000
    assert sum(weight for batch in given for weight in batch["_weight"].to_pylist()) == 10_000


def _packets(source: str, table: pa.Table) -> list[Packet]:
    return [Packet(0, Content.OWNED, table.append_column("_weight", pa.array([1] * len(table), pa.int64())), source)]


def test_a_checkpoint_of_another_query():
    setups = [ViewSetup(f"SELECT {column} FROM b", {"b": jn.Source(SCHEMAS["b"])}) for column in ("k", "y")]
    view = ViewInTasks(setups[0], random.Random(1))
    view.given(_packets("b", pa.table({"k": [1], "y": [2]}, SCHEMAS["b"]).select(["k"])))
    view.hosted = HostedView(setups[1])
    with pytest.raises(StateError, match="belongs to another view: its query is SELECT k FROM b, but this view has"):
        view.processor().restored()
