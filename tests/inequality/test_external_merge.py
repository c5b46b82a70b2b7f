"""Joins by inequalities on disk give the rows of the reference, in its order, under budgets that hold a row or two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inequality.strategies import near_examples
from juncture.errors import DataError, PlanError, StateError
from juncture.runtime import spill as spilling
from juncture.runtime.spill import spooled
from juncture.spec.asof import Asof
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where
from support.disk import FullDisk
from support.engines import execute, join_in_process
from support.tables import difference

HOWS = ("inner", "left", "right", "full", "semi", "anti")
SPECS = {
    "range": Range(on="v", by="k", lower=-30, upper=10),
    "range-agg": Range(on="v", by="k", lower=-15, upper=5, agg={"v": ["sum", "std", "last"], "*": "count"}),
    "overlap": Overlap(left_interval=("v", "w"), right_interval=("v", "w"), by="k"),
    "overlap-agg": Overlap(left_interval=("v", "w"), right_interval=("v", "w"), agg={"w": ["mean", "first"]}),
    "band": Where("l.v - 5 <= r.v AND r.v <= l.v + 5"),
    "keys": Where("l.k = r.k AND l.v < r.w"),
    "neither": Where("l.v * r.v > 70000 OR l.w = r.v"),
}


def tables(rows=300, keys=20):
    chance = np.random.default_rng(3)
    sides = []
    for _ in range(2):
        v = chance.integers(0, rows, rows)
        k = pa.array(chance.integers(0, keys, rows), mask=chance.random(rows) < 0.02)
        sides.append(pa.table({"k": k, "v": v, "w": v + chance.integers(0, 30, rows)}))
    return sides


@pytest.mark.parametrize(
    ("kind", "agg"), [("range", False), ("overlap", False), ("where", False), ("range", True), ("overlap", True)]
)
@given(data=st.data(), part_rows=st.sampled_from([1, 3, 1000]), memory_bytes=st.sampled_from([1, 400, 2_000, 20_000]))
def test_parts_of_any_size_and_any_budget(kind, agg, data, part_rows, memory_bytes):
    example = data.draw(near_examples(kind, agg=agg))
    join = example.resolve()
    sources = [spooled(side.schema, side.to_batches(), part_rows=part_rows) for side in (example.left, example.right)]
    batches = execute(join, *sources, "external_merge", memory_bytes=memory_bytes, threads=2)
    expected = example.defined_unless_refused(batches)
    if expected is None:
        return
    try:
        answer = pa.Table.from_batches(batches, join.user_schema(example.left.schema, example.right.schema))
    except PlanError as error:
        assert agg or "nearly equal" in str(error)
        assert "do not fit in memory=" in str(error)
        return
    assert difference(answer, expected, ordered=True) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", SPECS)
def test_the_answer_on_disk_is_the_one_in_memory(kind, scratch):
    spec, sides = SPECS[kind], tables()
    if kind == "neither":
        # All blocks are compared.
        sides = [side.slice(0, 100) for side in sides]
    folds = kind.endswith("agg")
    for how in ("inner", "left") if folds else HOWS:
        asked = replace(spec, how=how)
        memory_bytes = 100_000 if folds else 110 * sides[0].num_rows
        answer = join_in_process(asked, *sides, "external_merge", memory_bytes=memory_bytes)
        assert answer.equals(join_in_process(asked, *sides, "auto"))
    assert list(scratch.iterdir()) == []


def test_what_one_row_aggregates_has_to_fit():
    spec, sides = Range(on="v", upper=0, agg={"v": "sum"}), tables()
    with pytest.raises(PlanError, match=r"A single left row aggregates right rows that do not fit in .* Pass memory='"):
        join_in_process(spec, *sides, "external_merge", memory_bytes=20_000)
    answer = join_in_process(spec, *sides, "external_merge", memory_bytes=400_000)
    assert answer.equals(join_in_process(spec, *sides, "auto"))


def test_a_wrong_interval_is_named_by_its_own_row():
    left, right = tables()
    ends = right["w"].to_pylist()
    ends[121] = -1
    wrong = right.set_column(2, "w", pa.array(ends))
    for sides, side in (((left, wrong), "right"), ((wrong, left), "left")):
        with pytest.raises(DataError, match=f"The {side} interval in row 121 starts after its end"):
            join_in_process(SPECS["overlap"], *sides, "external_merge", memory_bytes=20_000)


@pytest.mark.parametrize("kind", ["range", "range-agg", "overlap", "keys"])
def test_an_interrupt_while_spilling(kind, scratch, monkeypatch):
    written = []
    write = spilling.SpillFile.write

    def interrupted(self, batch):
        write(self, batch)
        written.append(batch)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(spilling.SpillFile, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        join_in_process(SPECS[kind], *tables(), "external_merge", memory_bytes=20_000)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("kind", ["range", "overlap", "keys", "asof"])
def test_a_full_disk(kind, scratch, monkeypatch):
    opened = pa.OSFile

    def open_file(path, mode="rb"):
        return opened(path) if mode == "rb" else pa.PythonFile(FullDisk(path, mode, 600), mode="w")

    monkeypatch.setattr(spilling.pa, "OSFile", open_file)
    spec, algorithm = (Asof(on="v", by="k"), "probe") if kind == "asof" else (SPECS[kind], "external_merge")
    with pytest.raises(StateError, match="No space left on device") as raised:
        join_in_process(spec, *tables(), algorithm, memory_bytes=20_000)
    assert "TMPDIR" in str(raised.value)
    assert list(scratch.iterdir()) == []
