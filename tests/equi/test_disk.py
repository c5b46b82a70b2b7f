"""Equality joins on disk: cut again and again, joined block by block, and nothing left behind."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inequality.strategies import near_examples
from juncture.errors import PlanError, StateError
from juncture.local import kinds
from juncture.local.equi import hash_index as grouped
from juncture.local.equi import in_memory as held
from juncture.local.equi import on_disk
from juncture.runtime import spill as spilling
from juncture.runtime.context import join_context
from juncture.runtime.sources import TableSource
from juncture.runtime.spill import spooled
from juncture.spec.equi import Equi
from support.disk import FullDisk
from support.engines import LOCAL_EQUI, execute, join_in_process
from support.tables import difference

ON_DISK = ("grace", "external_sort_merge")
HOWS = ("inner", "left", "right", "full", "semi", "anti")


def tables(rows=1_000, keys=250, seed=3):
    chance = np.random.default_rng(seed)
    sides = [
        pa.table({"k": pa.array(chance.integers(0, keys, rows), mask=chance.random(rows) < 0.02), "v": range(rows)})
        for _ in range(2)
    ]
    return sides[0], sides[1]


@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
@given(data=st.data(), part_rows=st.sampled_from([1, 3, 1000]), memory_bytes=st.sampled_from([1, 400, 2_000, 10**9]))
def test_parts_of_any_size_and_any_budget(algorithm, data, part_rows, memory_bytes):
    example = data.draw(near_examples("equi"))
    join = example.spec.resolve(example.left.schema, example.right.schema)
    sources = [spooled(side.schema, side.to_batches(), part_rows=part_rows) for side in (example.left, example.right)]
    batches = execute(join, *sources, algorithm, memory_bytes=memory_bytes)
    expected = example.defined_unless_refused(batches)
    if expected is None:
        return
    answer = pa.Table.from_batches(batches, join.user_schema(example.left.schema, example.right.schema))
    assert difference(answer, expected, ordered=True) is None


@pytest.mark.parametrize(
    ("algorithm", "how", "where"),
    [
        # Each algorithm with each `how` in each run, and with and without a condition in a nightly one.
        pytest.param(algorithm, how, where, marks=pytest.mark.nightly if (number + turn + bool(where)) % 2 else [])
        for number, algorithm in enumerate(ON_DISK)
        for turn, how in enumerate(HOWS)
        for where in (None, "l.v < r.v")
    ],
)
def test_the_answer_on_disk_is_the_one_in_memory(algorithm, how, where):
    left, right = tables()
    spec = Equi(on="k", how=how, where=where)
    expected = join_in_process(spec, left, right, "hash")
    for memory_bytes in (20_000, 200_000):
        assert join_in_process(spec, left, right, algorithm, memory_bytes=memory_bytes).equals(expected)


@pytest.mark.parametrize(
    ("algorithm", "how"),
    [
        # Each `how` in each run, and by each algorithm in a nightly one.
        pytest.param(algorithm, how, marks=pytest.mark.nightly if (number + turn) % 2 else [])
        for number, algorithm in enumerate(ON_DISK)
        for turn, how in enumerate(HOWS)
    ],
)
def test_a_hot_key_is_joined_block_by_block(algorithm, how, monkeypatch):
    blocks = []
    stream_held = held.stream_held

    def counted(join, left, right, *rest):
        blocks.append(right.num_rows)
        return stream_held(join, left, right, *rest)

    monkeypatch.setattr(held, "stream_held", counted)
    chance = np.random.default_rng(5)
    # Half of all rows have one key, whose right rows take a multiple of the budget.
    sides = [
        pa.table({"k": np.where(chance.random(rows) < 0.5, 7, chance.integers(0, 50, rows)), "v": range(rows)})
        for rows in (300, 2_000)
    ]
    spec = Equi(on="k", how=how, where="l.v < r.v - 1000")
    expected = join_in_process(spec, *sides, "hash")
    assert join_in_process(spec, *sides, algorithm, memory_bytes=60_000).equals(expected)
    assert len(blocks) > 2


@pytest.mark.parametrize("how", HOWS)
def test_a_small_left_side_is_held_instead(how, monkeypatch):
    turned = []
    stream_swapped = on_disk.stream_swapped
    monkeypatch.setattr(on_disk, "stream_swapped", lambda *rest: turned.append(how) or stream_swapped(*rest))
    left, right = tables()
    left = left.slice(0, 60)
    for coalesce in (True, False):
        spec = Equi(on="k", how=how, coalesce=coalesce)
        answer = join_in_process(spec, left, right, "grace", memory_bytes=100_000)
        assert answer.equals(join_in_process(spec, left, right, "hash"))
    assert turned == ([] if how in ("semi", "anti") else [how, how])


@pytest.mark.parametrize("how", ["right", "full"])
@pytest.mark.parametrize("data_type", [pa.decimal256(76, -1), pa.decimal128(38, 2), pa.string()], ids=str)
def test_right_keys_fill_those_of_a_small_left_side(data_type, how, monkeypatch):
    turned = []
    stream_swapped = on_disk.stream_swapped
    monkeypatch.setattr(on_disk, "stream_swapped", lambda *rest: turned.append(how) or stream_swapped(*rest))
    keys = [None if number % 50 == 0 else str(number * 10) for number in range(3_000)]
    if pa.types.is_decimal(data_type):
        keys = [None if key is None else Decimal(key) for key in keys]
    left, right = (pa.table({"k": pa.array(keys[:rows], data_type), "v": range(rows)}) for rows in (60, 3_000))
    spec = Equi(on="k", how=how)
    answer = join_in_process(spec, left, right, "grace", memory_bytes=100_000)
    assert answer.equals(join_in_process(spec, left, right, "hash"))
    assert turned == [how]


def test_keys_that_a_hash_does_not_part_are_cut_by_another(monkeypatch):
    levels = set()
    joined = on_disk.GraceJoin.rows

    def noted(self, left, right, level, *rest):
        levels.add(level)
        return joined(self, left, right, level, *rest)

    monkeypatch.setattr(on_disk.GraceJoin, "rows", noted)
    left, right = tables()
    spec = Equi(on="k", how="full")
    answer = join_in_process(spec, left, right, "grace", memory_bytes=30_000)
    assert answer.equals(join_in_process(spec, left, right, "hash"))
    assert max(levels) >= 3


@pytest.mark.parametrize("algorithm", ON_DISK)
def test_what_fits_is_not_written(algorithm):
    left, right = tables()
    join = Equi(on="k").resolve(left.schema, right.schema)
    with join_context() as context:
        sources = TableSource(left), TableSource(right)
        assert sum(b.num_rows for b in kinds.execute(join, *sources, algorithm, context)) > 0
        assert context.spill.spilled_bytes == 0


@pytest.mark.parametrize("algorithm", ON_DISK)
def test_an_interrupt_while_spilling(algorithm, scratch, monkeypatch):
    written = []
    write = spilling.SpillFile.write

    def interrupted(self, batch):
        written.append(batch.num_rows)
        if len(written) == 5:
            raise KeyboardInterrupt
        write(self, batch)

    monkeypatch.setattr(spilling.SpillFile, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        join_in_process(Equi(on="k"), *tables(), algorithm, memory_bytes=20_000)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("room", [0, 600])
@pytest.mark.parametrize("algorithm", ON_DISK)
def test_a_full_disk(algorithm, scratch, monkeypatch, room):
    opened = pa.OSFile

    def open_file(path, mode="rb"):
        return opened(path) if mode == "rb" else pa.PythonFile(FullDisk(path, mode, room), mode="w")

    monkeypatch.setattr(spilling.pa, "OSFile", open_file)
    with pytest.raises(StateError, match="No space left on device") as raised:
        join_in_process(Equi(on="k"), *tables(), algorithm, memory_bytes=20_000)
    assert "TMPDIR" in str(raised.value)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("algorithm", "memory_bytes", "phases"),
    [
        ("grace", 20_000, ["cut left", "cut right", "pieces", "output"]),
        ("grace", 10**9, ["right", "left", "output"]),
        ("external_sort_merge", 20_000, ["sort left", "sort right", "windows", "output"]),
    ],
)
def test_progress_on_disk(algorithm, memory_bytes, phases):
    calls = []
    left, right = tables()
    options = {"memory_bytes": memory_bytes, "progress": lambda *call: calls.append(call)}
    answer = join_in_process(Equi(on="k"), left, right, algorithm, **options)
    assert list(dict.fromkeys(phase for phase, _, _ in calls)) == phases
    for phase in phases:
        done = [(done, total) for each, done, total in calls if each == phase]
        assert done == sorted(done)
        assert done[-1] == (answer.num_rows if phase == "output" else 1_000,) * 2


def test_more_rows_than_can_be_numbered(monkeypatch):
    monkeypatch.setattr(grouped, "_ROWS_MOST", 500)
    with pytest.raises(PlanError, match=r"A side has 1,000 rows, .* Pass algorithm='grace'"):
        join_in_process(Equi(on="k"), *tables(), "hash")
