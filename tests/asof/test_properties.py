"""Every algorithm in-process gives what the reference gives, in the same order, whatever form the input has."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from juncture import testing as reference
from juncture.errors import DataError
from juncture.spec.asof import Asof
from strategies import Example, examples
from support.engines import LOCAL, run_in_process
from support.inputs import FORMS, pass_as, random_chunks
from support.tables import difference

ALGORITHMS = pytest.mark.parametrize("algorithm", LOCAL)


def expected(example: Example) -> pa.Table | None:
    """Return the reference's answer, or None where it refuses the data."""
    try:
        return reference.asof_join(example.resolve(), example.left, example.right)
    except DataError:
        return None


def check(example: Example, algorithm: str, left: Any, right: Any) -> None:
    """Compare an algorithm's answer for an example, its tables passed in some form, with the reference's."""
    answer = expected(example)
    if answer is None:
        with pytest.raises(DataError):
            run_in_process(example.spec, left, right, algorithm)
    else:
        problem = difference(run_in_process(example.spec, left, right, algorithm), answer, ordered=is_ordered(example))
        assert problem is None, problem


def is_ordered(example: Example) -> bool:
    """Tell whether the order of the answer's rows is fixed: of equal right rows any may be the one without a match."""
    return example.spec.how not in ("right", "full") or "right_row" in example.right.column_names


@ALGORITHMS
@given(example=examples(more=True))
def test_tables(algorithm, example):
    check(example, algorithm, example.left, example.right)


@ALGORITHMS
@given(
    example=examples(more=True),
    forms=st.tuples(st.sampled_from(FORMS), st.sampled_from(FORMS)),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_form(algorithm, example, forms, seed, tmp_path_factory):
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("inputs")
    left = pass_as(forms[0], example.left, folder / "left", chance)
    right = pass_as(forms[1], example.right, folder / "right", chance)
    check(example, algorithm, left, right)


@ALGORITHMS
@given(example=examples(more=True, rows=24), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_right_rows_does_not_matter(algorithm, example, seed):
    assume(expected(example) is not None)
    assume(not example.resolve().goes_by_table_order)
    rows = list(range(example.right.num_rows))
    random.Random(seed).shuffle(rows)
    # Row by row, since Arrow cannot take rows of all types.
    parts = [example.right.slice(row, 1) for row in rows]
    shuffled = replace(example, right=pa.concat_tables([example.right.slice(0, 0), *parts]))
    straight, other = (run_in_process(one.spec, one.left, one.right, algorithm) for one in (example, shuffled))
    # Right rows without a match come in their own order.
    assert difference(other, straight, ordered=example.spec.how not in ("right", "full")) is None


@ALGORITHMS
@given(example=examples(more=True, rows=24))
def test_semi_and_anti_divide_the_left_rows(algorithm, example):
    spec = replace(example.spec, ties="greatest")
    numbered = example.left.append_column("number", pa.array(range(example.left.num_rows), pa.int64()))
    parts = [
        run_in_process(replace(spec, how=how), numbered, example.right, algorithm)["number"].to_pylist()
        for how in ("semi", "anti")
    ]
    assert sorted(parts[0] + parts[1]) == list(range(numbered.num_rows))
    assert all(part == sorted(part) for part in parts)


@ALGORITHMS
@given(example=examples(more=True, rows=24))
def test_left_keeps_each_left_row_once(algorithm, example):
    spec = replace(example.spec, how="left", ties="greatest", matches=1)
    answer = run_in_process(spec, example.left, example.right, algorithm)
    assert difference(answer.select(example.left.column_names), example.left, ordered=True) is None


INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-20, 20)


@st.composite
def numbers(draw: st.DrawFn, values: st.SearchStrategy[int]) -> tuple[pa.Table, pa.Table]:
    """Return tables of an integer order and a key, the right rows numbered."""
    sides = []
    for _ in range(2):
        rows = draw(st.lists(st.tuples(values, st.integers(0, 2)), max_size=24))
        sides.append(pa.table({"ts": pa.array([on for on, _ in rows], pa.int64()), "k": [key for _, key in rows]}))
    left, right = (side.set_column(1, "k", side["k"].cast(pa.int64())) for side in sides)
    return left, right.append_column("row", pa.array(range(right.num_rows), pa.int64()))


@ALGORITHMS
@given(
    tables=numbers(SMALL),
    shift=st.integers(-(2**63) + 20, 2**63 - 21),
    direction=st.sampled_from(["backward", "nearest"]),
)
def test_moving_all_of_time_changes_nothing(algorithm, tables, shift, direction):
    spec = Asof(on="ts", by="k", direction=direction, tolerance=5)
    moved = [
        table.set_column(0, "ts", pa.array([on + shift for on in table["ts"].to_pylist()], pa.int64()))
        for table in tables
    ]
    straight, other = (run_in_process(spec, *pair, algorithm) for pair in (tables, moved))
    assert other["row"].to_pylist() == straight["row"].to_pylist()


@ALGORITHMS
@given(tables=numbers(INT64.filter(lambda value: value != -(2**63))), matches=st.integers(1, 3), exact=st.booleans())
def test_backward_is_forward_in_the_mirror(algorithm, tables, matches, exact):
    mirrored = [
        table.set_column(0, "ts", pa.array([-on for on in table["ts"].to_pylist()], pa.int64())) for table in tables
    ]
    backward = Asof(on="ts", by="k", matches=matches, allow_exact_matches=exact)
    straight = run_in_process(backward, *tables, algorithm)
    other = run_in_process(replace(backward, direction="forward"), *mirrored, algorithm)
    assert other["row"].to_pylist() == straight["row"].to_pylist()


@ALGORITHMS
@given(example=examples(more=True, rows=24), seed=st.integers(0, 2**32 - 1))
def test_where_batches_end_does_not_matter(algorithm, example, seed):
    assume(expected(example) is not None)
    chance = random.Random(seed)
    straight = run_in_process(example.spec, example.left, example.right, algorithm)
    readers = [
        pa.RecordBatchReader.from_batches(table.schema, random_chunks(table, chance))
        for table in (example.left, example.right)
    ]
    answer = run_in_process(example.spec, *readers, algorithm)
    assert difference(answer, straight, ordered=is_ordered(example)) is None
