"""Stages of tasks as plain functions: what all of them have in common, and those that no shuffled join runs."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inequality.strategies import near_examples
from juncture.errors import DataError, StateError
from juncture.runtime.context import JoinContext, join_context
from juncture.spark.exchange import needed_right
from juncture.spark.tasks.feed import BatchFeed, Feed, send
from juncture.spark.tasks.join import JoinBroadcast, ResolveUnmatched
from juncture.spark.tasks.packets import Content, Packet, read_packets, write_packets
from juncture.spark.tasks.scatter import Pick
from juncture.spark.tasks.stage import OutputStage, PacketStage
from juncture.spark.tasks.store import PartitionRows
from juncture.spec.range import Range
from juncture.testing.output import with_computed
from spark.stages import collect, output_of, scattered
from support.tables import difference, read_table

NUMBERS = pa.table({"n": range(10)})


@dataclass(frozen=True)
class Failing(PacketStage):
    """Sends a packet, and fails."""

    error: Exception

    def packets(self, _batches: Iterable[pa.RecordBatch], _context: JoinContext, /) -> Iterator[Packet]:
        yield Packet(1, Content.OUTPUT, NUMBERS)
        raise self.error


@dataclass(frozen=True)
class GiveOut(OutputStage):
    """Gives out the rows of all packets, and the memory that it may hold."""

    def tables(self, batches: Iterable[pa.RecordBatch], context: JoinContext, /) -> Iterator[pa.Table]:
        for packet in read_packets(batches):
            yield packet.rows
        yield pa.table({"n": [context.memory.total_bytes, context.threads.count]})


GIVE_OUT = GiveOut(memory_bytes=12_345, output=pa.schema([("c0", pa.int64())]))


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[tuple[object, object]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_a_stage_has_one_thread_and_the_memory_of_its_task():
    sent = write_packets([Packet(0, Content.OUTPUT, NUMBERS.slice(0, 2))])
    assert rows_of(GIVE_OUT(sent)) == [(0, None), (1, None), (12_345, None), (1, None)]


def test_an_error_goes_through_all_stages_to_a_row_of_one_line():
    failing = Failing(DataError("Two lines\nof text."), memory_bytes=1_000)
    assert rows_of(GIVE_OUT(failing([]))) == [(None, "juncture.errors.DataError: Two lines of text.")]


def test_an_error_of_a_stage_before_is_raised_where_packets_are_read():
    sent = Failing(StateError("The disk is full."), memory_bytes=1_000)([])
    with pytest.raises(StateError, match=r"^The disk is full\.$"):
        list(read_packets(sent))


def test_an_error_that_nobody_can_mend_is_left_to_spark():
    with pytest.raises(ZeroDivisionError):
        list(Failing(ZeroDivisionError(), memory_bytes=1_000)([]))


def test_packets_come_as_they_went():
    sent = [
        Packet(3, Content.UNMATCHED, NUMBERS, "right"),
        Packet(0, Content.EMPTY, pa.table({})),
        Packet(1, Content.MARK, pa.table({"k": pa.array(["a", "a"]).dictionary_encode()}), "left"),
    ]
    assert [replace(packet, cell=None) for packet in read_packets(write_packets(sent))] == sent


def test_many_packets_go_in_batches_of_a_few_megabytes():
    sent = [Packet(number, Content.OWNED, pa.table({"text": ["x" * 3_000_000]}), "left") for number in range(7)]
    batches = list(write_packets(sent))
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    assert [packet.target for packet in read_packets(batches)] == list(range(7))


def test_a_sample_says_which_side_it_is_of():
    batches = NUMBERS.to_batches()
    picked = list(read_packets(Pick(BatchFeed(NUMBERS.schema), "right", 0.5)(batches)))
    assert [packet.side for packet in picked] == ["right"]
    rows = picked[0].rows["n"].to_pylist()
    assert 0 < len(rows) < 10
    assert rows == sorted(set(rows))


RESOLVED = Range(on="t", by="k", lower=-1, upper=1, how="full").resolve(
    read_table("k: string | t: int64\n").schema, read_table("k: string | t: int64 | v: int64\n").schema
)


def resolved(how: str, packets: list[Packet]) -> list[tuple[object, ...]]:
    join = replace(RESOLVED, how=how)
    if how in ("semi", "anti"):
        join = replace(join, output=tuple(column for column in join.output if column.side == "left"))
    stage = ResolveUnmatched(join, memory_bytes=1 << 20, output=output_of(join))
    table = collect(stage(write_packets(packets)), join)
    return [tuple(row.values()) for row in table.to_pylist()]


UNMATCHED = [
    Packet(0, Content.UNMATCHED, read_table("k: string | t: int64\na | 1\na | 2\nb | null"), "left"),
    Packet(0, Content.UNMATCHED, read_table("k: string | t: int64\na | 1"), "left"),
]
MARKS = [Packet(0, Content.MARK, read_table("t: int64 | k: string\n1 | a\nnull | b"), "left")]


def test_rows_that_agree_with_a_match_mark_are_matched():
    assert resolved("anti", UNMATCHED) == [("a", 1), ("a", 2), ("b", None), ("a", 1)]
    assert resolved("anti", [*MARKS, *UNMATCHED]) == [("a", 2)]
    assert resolved("semi", [*UNMATCHED, *MARKS]) == [("a", 1), ("b", None), ("a", 1)]


def test_rows_without_a_mark_are_shown_as_the_join_shows_them():
    ready = read_table("k: string | t: int64 | t_right: int64 | v: int64\nc | 7 | 8 | 9")
    packets = [*UNMATCHED, Packet(0, Content.OUTPUT, ready), *MARKS]
    assert resolved("left", packets) == [("c", 7, 8, 9), ("a", 2, None, None)]


def test_a_mark_may_name_columns_that_the_result_has_not_and_rows_may_lack_a_value_there():
    ranked = read_table(
        "k: string | t: int64 | v: int64 | first: int64 | last: int64\n"
        "a | 1 | 10 | 0 | null\na | 2 | 20 | null | 0\na | 3 | 30 | 1 | 1"
    )
    unmatched = Packet(0, Content.UNMATCHED, ranked, "right")
    marks = [
        Packet(0, Content.MARK, read_table("k: string | first: int64\na | 0"), "right"),
        Packet(0, Content.MARK, read_table("k: string | last: int64\na | 1"), "right"),
        Packet(0, Content.MARK, read_table("k: string | last: int64\nb | 0"), "right"),
        # Of the other side.
        Packet(0, Content.MARK, read_table("k: string | t: int64\na | 2"), "left"),
    ]
    assert [row[-2:] for row in resolved("right", [unmatched, *marks])] == [(2, 20)]


def test_rows_of_a_partition_are_in_order_across_contents_and_read_by_mask():
    tables = [read_table(f"k: string | t: int64\na | {first}\nb | {first + 1}") for first in (0, 10, 20)]
    contents = (Content.OWNED, Content.COPY, Content.OWNED)
    sent = write_packets(Packet(5, content, table, "left") for content, table in zip(contents, tables, strict=True))
    with join_context(threads=1, memory_bytes=100_000) as context:
        partition = PartitionRows.of(RESOLVED, sent, context)
        rows = partition.rows("left", Content.OWNED, Content.COPY)
        assert partition.target == 5
        assert partition.count("left", Content.COPY) == 2
        assert partition.count("right", Content.OWNED) == 0
        read = pa.concat_tables(rows.tables())
        assert read["t"].to_pylist() == [0, 1, 20, 21, 10, 11]
        wanted = read["t"].to_numpy() % 10 == 1
        assert [table.column_names for table in rows.filter(wanted)] == [["k", "t"]] * 2
        assert [row for table in rows.filter(wanted) for row in table["t"].to_pylist()] == [1, 21, 11]


@given(st.data(), st.integers(1, 3))
@pytest.mark.parametrize(
    ("kind", "agg"), [("range", False), ("range", True), ("overlap", False), ("overlap", True), ("where", False)]
)
def test_joins_with_a_right_side_that_every_task_has(kind, agg, data, tasks):
    example = data.draw(near_examples(kind, agg=agg, spark=True))
    assume(example.spec.how not in ("right", "full"))
    join = example.resolve()
    left, right = with_computed(join, example.left, example.right)
    seen, sent = replace(join, right_schema=needed_right(join)), send(right)

    def stage(feed: Feed) -> JoinBroadcast:
        return JoinBroadcast(feed, seen, sent, "right", memory_bytes=100_000, output=output_of(join))

    answer = collect(scattered(stage, left, tasks), join)
    assert difference(answer, example.defined_rows(), ordered=False) is None


@given(st.data(), st.integers(1, 3))
@pytest.mark.parametrize("kind", ["range", "overlap", "where"])
def test_joins_with_a_left_side_that_every_task_has(kind, data, tasks):
    example = data.draw(near_examples(kind, spark=True))
    join = example.resolve()
    left, right = with_computed(join, example.left, example.right)
    sent = send(left)
    assume(join.how in ("inner", "right"))

    def stage(feed: Feed) -> JoinBroadcast:
        return JoinBroadcast(feed, join, sent, "left", memory_bytes=100_000, output=output_of(join))

    answer = collect(scattered(stage, right, tasks), join)
    assert difference(answer, example.defined_rows(), ordered=False) is None


def test_stages_go_to_tasks_as_they_are():
    stage = JoinBroadcast(
        BatchFeed(NUMBERS.schema), RESOLVED, send(NUMBERS), "left", memory_bytes=1_000, output=output_of(RESOLVED)
    )
    assert pickle.loads(pickle.dumps(stage)) == stage


def test_a_worker_looks_for_garbage_in_what_it_made_only(monkeypatch):
    # A module that is imported since the last task.
    monkeypatch.setitem(sys.modules, "imported_since", ModuleType("imported_since"))
    try:
        list(Failing(DataError("x"), memory_bytes=1 << 20)([]))
        kept = gc.get_freeze_count()
        assert kept > 10 * len(gc.get_objects())
        # Nothing has been imported since: what a task holds at the moment stays garbage, once it is.
        held = [[] for _ in range(1000)]
        list(Failing(DataError("x"), memory_bytes=1 << 20)([]))
        assert gc.get_freeze_count() < kept + len(held)
    finally:
        gc.unfreeze()
