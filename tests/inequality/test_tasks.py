"""The stages of range and overlap joins in tasks, run one after the other without Spark, with keys cut anywhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inequality.strategies import near_examples
from juncture.planner.statistics import Resources
from juncture.spark.inequality.plan import inequality_placements, inequality_stages
from juncture.spark.tasks.cuts import BEFORE_ALL, Cuts
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.testing.output import with_computed
from spark.stages import output_of, run
from support.kinds import defined_rows
from support.tables import difference

HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def check(spec, left: pa.Table, right: pa.Table, data) -> None:
    join = spec.resolve(left.schema, right.schema)
    tables = with_computed(join, left, right)
    placements = inequality_placements(join)
    assert placements is not None
    cuts, tasks = cuts_through(data.draw, placements, *tables), data.draw(st.integers(1, 3))
    memory_bytes = data.draw(st.sampled_from([100_000, 1 << 22]))
    got = run(
        inequality_stages(join, placements, cuts, output_of(join), Resources(cores=1, memory_bytes=memory_bytes)),
        *tables,
        tasks,
    )
    problem = difference(got, defined_rows(spec, left, right), ordered=False)
    assert problem is None, f"{cuts}\n{problem}"


def cuts_through(draw, placements, left: pa.Table, right: pa.Table) -> Cuts:
    """Return cuts at rows of the tables."""
    rows = [(0, 0), (2**63, 0)]
    for table, placement in zip((left, right), placements, strict=True):
        ranges = placement.ranges_of(table)
        ranges = ranges.take(ranges.valid)
        for codes in (ranges.first, ranges.last):
            rows += list(zip(ranges.hashes.tolist(), codes.tolist(), strict=True))
    cut = st.sampled_from(sorted(set(rows))).flatmap(
        lambda row: st.sampled_from([row, row, row, (row[0], BEFORE_ALL), (row[0], max(row[1] - 1, BEFORE_ALL))])
    )
    cuts = sorted(draw(st.sets(cut, max_size=5)))
    hashes, codes = (np.array([cut[i] for cut in cuts], kind) for i, kind in enumerate((np.uint64, np.int64)))
    return Cuts(hashes, codes)


@given(st.data())
@pytest.mark.parametrize("kind", ["range", "overlap"])
def test_aggregates(kind, data):
    example = data.draw(near_examples(kind, agg=True, spark=True))
    check(example.spec, example.left, example.right, data)


@given(st.data())
@pytest.mark.parametrize("kind", ["range", "overlap", "where"])
def test_any_types(kind, data):
    examples = near_examples(kind, spark=True).filter(
        lambda example: inequality_placements(example.resolve()) is not None
    )
    example = data.draw(examples)
    check(example.spec, example.left, example.right, data)


KEYS = st.sampled_from(["a", "b", None])
NUMBERS = st.integers(-8, 8) | st.none()


@st.composite
def tables(draw, *columns: str) -> pa.Table:
    rows = draw(st.lists(st.tuples(KEYS, *(NUMBERS for _ in columns)), max_size=12))
    cells = list(zip(*rows, strict=True)) or [()] * (len(columns) + 1)
    arrays = [pa.array(cells[0], pa.string()), *(pa.array(cell, pa.int64()) for cell in cells[1:])]
    return pa.table([*arrays, pa.array(range(len(rows)))], names=["k", *columns, "id"])


BOUNDS = st.sampled_from(["low", None, -3, 0])


@given(st.data())
def test_ranges(data):
    left, right = data.draw(tables("t", "low", "high")), data.draw(tables("t"))
    lower, upper = data.draw(BOUNDS), data.draw(st.sampled_from(["high", None, 0, 4]))
    if lower is None and upper is None:
        upper = 2
    spec = Range(
        on="t",
        by=data.draw(st.sampled_from([None, "k"])),
        lower=lower,
        upper=upper,
        closed=data.draw(st.sampled_from(["both", "none"])),
        how=data.draw(st.sampled_from(HOWS)),
    )
    check(spec, left, right, data)


@given(st.data())
def test_overlaps(data):
    def proper(table: pa.Table) -> pa.Table:
        ends = [
            (None if a is None or b is None else (min(a, b), max(a, b)))
            for a, b in zip(*map(pa.ChunkedArray.to_pylist, (table["s"], table["e"])), strict=True)
        ]
        columns = {
            "s": pa.array([end and end[0] for end in ends], pa.int64()),
            "e": pa.array([end and end[1] for end in ends], pa.int64()),
        }
        return pa.table({"k": table["k"], **columns, "id": table["id"]})

    left, right = (proper(data.draw(tables("s", "e"))) for _ in range(2))
    spec = Overlap(
        left_interval=data.draw(st.sampled_from([("s", "e"), ("s", "e"), (None, "e"), ("s", None)])),
        right_interval=data.draw(st.sampled_from([("s", "e"), ("s", "e"), ("s", None)])),
        by=data.draw(st.sampled_from([None, "k"])),
        closed=data.draw(st.sampled_from(["both", "left"])),
        how=data.draw(st.sampled_from(HOWS)),
    )
    check(spec, left, right, data)
