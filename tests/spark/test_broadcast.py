"""Joins with a side that every task has whole, run without Spark: sent along, or read from files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from juncture import testing as reference
from juncture.errors import DataError
from juncture.runtime.context import join_context
from juncture.runtime.footers import read_footers
from juncture.runtime.paths import files_of
from juncture.runtime.sources import TableSource
from juncture.spark.exchange import needed_right
from juncture.spark.tasks import engine
from juncture.spark.tasks.asof import ChooseCandidates, ProbeLeft
from juncture.spark.tasks.feed import BroadcastTable, Feed, FileTable, Unit, send
from juncture.spark.tasks.join import JoinBroadcast
from juncture.spark.tasks.packets import Content, Packet, write_packets
from juncture.spec.asof import Asof
from spark.stages import arrived, collect, output_of, scattered
from strategies import Example, examples, packed_examples
from support.tables import difference

EXAMPLES = st.one_of(packed_examples(cases=3), packed_examples(keyed=False), examples(spark=True))


def join_right(example: Example, small: BroadcastTable, tasks: int) -> pa.Table:
    join = example.resolve()
    seen = join.for_tasks().over(join.left_schema, needed_right(join))

    def stage(feed: Feed) -> JoinBroadcast:
        return JoinBroadcast(feed, seen, small, "right", memory_bytes=16_000, output=output_of(join))

    return collect(scattered(stage, example.left, tasks), join)


def probe_left(example: Example, small: BroadcastTable, tasks: int, targets: int) -> pa.Table:
    join = example.resolve()
    right = example.right.select(needed_right(join).names)

    def probe(feed: Feed) -> ProbeLeft:
        return ProbeLeft(feed, join.for_tasks(), small, targets, memory_bytes=16_000)

    output = output_of(join)
    choose = ChooseCandidates(join.for_tasks(), small, right.schema, targets, memory_bytes=16_000, output=output)
    placeholders = [Packet(target, Content.EMPTY, pa.table({})) for target in range(targets)]
    sent = [*write_packets(placeholders), *scattered(probe, right, tasks)]
    return collect([batch for part in arrived(sent, targets) for batch in choose(part)], join)


def check(example: Example, run) -> None:
    try:
        expected = reference.asof_join(example.resolve(), example.left, example.right)
    except DataError:
        with pytest.raises(DataError):
            run()
        return
    problem = difference(run(), expected, ordered=False)
    assert problem is None, problem


@given(example=EXAMPLES, tasks=st.integers(1, 3))
def test_broadcast(example, tasks):
    assume(example.spec.how not in ("right", "full"))
    small = send(example.right)
    check(example, lambda: join_right(example, small, tasks))


@given(example=EXAMPLES, tasks=st.integers(1, 3), targets=st.integers(1, 3))
def test_broadcast_left(example, tasks, targets):
    assume(example.spec.how not in ("right", "full"))
    small = send(example.left)
    check(example, lambda: probe_left(example, small, tasks, targets))


@given(example=EXAMPLES, targets=st.integers(1, 3), rows=st.integers(1, 4))
def test_small_sides_in_files(example, targets, rows):
    assume(example.spec.how not in ("right", "full"))
    with TemporaryDirectory() as folder:
        tables = {"left": example.left, "right": example.right}
        small = {name: written(table, Path(folder, f"{name}.parquet"), rows) for name, table in tables.items()}
        # What the file format makes of the types is not the question here.
        assume(all(pq.read_schema(Path(folder, f"{name}.parquet")).equals(t.schema) for name, t in tables.items()))
        check(example, lambda: join_right(example, small["right"], 2))
        check(example, lambda: probe_left(example, small["left"], 2, targets))


def written(table: pa.Table, path: Path, rows: int) -> FileTable:
    pq.write_table(table, path, row_group_size=rows)
    groups = tuple(range(pq.read_metadata(path).num_row_groups))
    [footer] = read_footers(files_of(str(path)))
    return FileTable((Unit(str(path), groups, footer.digest),), footer.schema, table.num_rows, str(path))


def test_a_sent_table_is_known_by_its_content():
    table = pa.table({"a": ["x"] * 1_000})
    one, other = send(table), send(table.slice(0))
    assert one == other
    assert hash(one) == hash(other)
    assert one != send(table.slice(1))
    assert one.table(["a"]).num_rows == 1_000
    assert one.slice(10, 12).num_rows == 2


def test_a_task_joins_one_chunk_after_the_other_whether_or_not_it_fits():
    right = pa.table({"ts": range(3_000), "v": range(3_000)})
    with join_context(threads=1, memory_bytes=245_000) as context:
        for rows in (10, 3_000, 10, 3_000, 10):
            left = pa.table({"ts": range(rows)})
            joined = engine.execute(
                Asof(on="ts").resolve(left.schema, right.schema), TableSource(left), TableSource(right), context
            )
            assert sum(table.num_rows for table in joined) == rows
