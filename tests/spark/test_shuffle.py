"""The stages of a shuffled join, run one after the other without Spark, with keys cut anywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture import testing as reference
from juncture.errors import DataError
from juncture.spark.asof.shuffle import needed_right, stages_of
from juncture.spark.exchange.partition import BEFORE_ALL, Cuts
from juncture.spark.tasks.placement import Coding, place
from juncture.spec.asof import ResolvedAsof
from spark.stages import arrived, collect, output_of, scattered
from strategies import Example, examples, packed_examples
from support.tables import difference


@dataclass(frozen=True)
class Layout:
    """How a run is laid out: what decides nothing, and so must not show."""

    cuts: Cuts
    coding: Coding
    tasks: int
    memory_bytes: int


def run(join: ResolvedAsof, left: pa.Table, right: pa.Table, layout: Layout) -> pa.Table:
    """Run all stages, each task in turn."""
    stages = stages_of(join, layout.coding, layout.cuts, output_of(join), layout.memory_bytes)
    sent = scattered(stages.left, left, layout.tasks)
    sent += scattered(stages.right, right.select(needed_right(join)), layout.tasks)
    partitions = arrived(sent, layout.cuts.partitions)
    finish = stages.joined
    if stages.resolved is not None:
        settled = [batch for partition in partitions for batch in stages.joined(partition)]
        partitions, finish = arrived(settled, layout.cuts.partitions), stages.resolved
    return collect([batch for partition in partitions for batch in finish(partition)], join)


@st.composite
def layouts(draw: st.DrawFn, example: Example) -> Layout:
    """Return cuts at rows of the tables, and hashes of few bits so that keys collide."""
    join = example.resolve()
    coding = Coding(Coding.of(join).by, Coding.of(join).on, draw(st.sampled_from([1, 2, 64, 64])))
    rows = [(0, 0), (2**63, 0)]
    for table, by, on in ((example.left, join.left_by, join.left_on), (example.right, join.right_by, join.right_on)):
        hashes, codes, valid = place(table, by, on, coding)
        rows += list(zip(hashes[valid].tolist(), codes[valid].tolist(), strict=True))
    cut = st.sampled_from(sorted(set(rows))).flatmap(
        lambda row: st.sampled_from([row, row, row, (row[0], BEFORE_ALL), (row[0], max(row[1] - 1, BEFORE_ALL))])
    )
    cuts = sorted(draw(st.sets(cut, max_size=6)))
    hashes, codes = (np.array([cut[i] for cut in cuts], kind) for i, kind in enumerate((np.uint64, np.int64)))
    return Layout(Cuts(hashes, codes), coding, draw(st.integers(1, 3)), draw(st.sampled_from([16_000, 1 << 20])))


def check(example: Example, layout: Layout) -> None:
    join = example.resolve()
    try:
        expected = reference.asof_join(join, example.left, example.right)
    except DataError:
        with pytest.raises(DataError):
            run(join, example.left, example.right, layout)
        return
    problem = difference(run(join, example.left, example.right, layout), expected, ordered=False)
    assert problem is None, f"{layout}\n{problem}"


@given(st.data())
def test_many_keys(data):
    example = data.draw(packed_examples(cases=3))
    check(example, data.draw(layouts(example)))


@given(st.data())
def test_no_key(data):
    example = data.draw(packed_examples(keyed=False))
    check(example, data.draw(layouts(example)))


@given(st.data())
def test_few_rows(data):
    example = data.draw(examples(spark=True))
    check(example, data.draw(layouts(example)))
