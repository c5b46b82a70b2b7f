"""The stages of a shuffled join, run one after the other without Spark, with keys cut anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture import testing as reference
from juncture.errors import DataError
from juncture.planner.statistics import Resources
from juncture.spark.asof.plan import asof_placements, asof_stages
from juncture.spark.tasks.cuts import BEFORE_ALL, Cuts
from juncture.spark.tasks.placement import Coding
from juncture.spec.asof import Asof
from juncture.testing.output import with_computed
from spark.stages import output_of, run
from strategies import Example, examples, packed_examples
from support.tables import difference


@dataclass(frozen=True)
class Layout:
    """How a run is laid out: what decides nothing, and so must not show."""

    cuts: Cuts
    coding: Coding
    tasks: int
    memory_bytes: int


@st.composite
def layouts(draw: st.DrawFn, example: Example) -> Layout:
    """Return cuts at rows of the tables, and hashes of few bits so that keys collide."""
    join = example.resolve()
    coding = replace(Coding.of(join), hash_bits=draw(st.sampled_from([1, 2, 64, 64])))
    rows = [(0, 0), (2**63, 0)]
    for table, placement in zip(
        with_computed(join, example.left, example.right), asof_placements(join, coding), strict=True
    ):
        ranges = placement.ranges_of(table)
        ranges = ranges.take(ranges.valid)
        rows += list(zip(ranges.hashes.tolist(), ranges.first.tolist(), strict=True))
    cut = st.sampled_from(sorted(set(rows))).flatmap(
        lambda row: st.sampled_from([row, row, row, (row[0], BEFORE_ALL), (row[0], max(row[1] - 1, BEFORE_ALL))])
    )
    cuts = sorted(draw(st.sets(cut, max_size=6)))
    # The planner splits no keys where rows are passed over.
    if join.available_at is not None or join.where is not None:
        cuts = sorted({(hashed, BEFORE_ALL) for hashed, _ in cuts})
    hashes, codes = (np.array([cut[i] for cut in cuts], kind) for i, kind in enumerate((np.uint64, np.int64)))
    return Layout(Cuts(hashes, codes), coding, draw(st.integers(1, 3)), draw(st.sampled_from([16_000, 1 << 20])))


def check(example: Example, layout: Layout) -> None:
    join = example.resolve()
    tables = with_computed(join, example.left, example.right)
    resources = Resources(cores=1, memory_bytes=layout.memory_bytes)
    stages = asof_stages(join, layout.coding, layout.cuts, output_of(join), resources)
    try:
        expected = reference.asof_join(join, example.left, example.right)
    except DataError:
        with pytest.raises(DataError):
            run(stages, *tables, layout.tasks)
        return
    problem = difference(run(stages, *tables, layout.tasks), expected, ordered=False)
    assert problem is None, f"{layout}\n{problem}"


@given(st.data())
def test_many_keys(data):
    example = data.draw(packed_examples(cases=3, more=True))
    check(example, data.draw(layouts(example)))


@given(st.data())
def test_no_key(data):
    example = data.draw(packed_examples(keyed=False, more=True))
    check(example, data.draw(layouts(example)))


@given(st.data())
def test_few_rows(data):
    example = data.draw(examples(spark=True, more=True))
    check(example, data.draw(layouts(example)))


@pytest.mark.parametrize("data_type", [pa.int8(), pa.decimal128(20, 18)], ids=str)
def test_ties_are_decided_by_a_column_that_is_hidden(data_type):
    values = [Decimal(f"1.{number:018}") for number in (3, 1, 2)] if pa.types.is_decimal(data_type) else [1, 1, 1]
    left = pa.table({"ts": pa.array([1, 2], pa.float64() if pa.types.is_decimal(data_type) else pa.int64())})
    right = pa.table({"ts": pa.array(values, data_type), "v": [1, 2, 3]})
    for order_by in ((), ("ts",), ("v", "ts")):
        spec = Asof(on="ts", how="left" if pa.types.is_decimal(data_type) else "right", order_by=order_by)
        example = Example(spec, left, right)
        hashes, codes = np.zeros(1, np.uint64), np.array([BEFORE_ALL], np.int64)
        check(example, Layout(Cuts(hashes, codes), Coding.of(example.resolve()), 2, 1 << 20))
