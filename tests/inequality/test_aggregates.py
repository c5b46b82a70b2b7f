"""Aggregates over matches, in-process: what the reference gives, and what DuckDB gives."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inequality.strategies import near_examples
from inequality.test_peers import CONDITIONS, NAMES, asked, in_duckdb, side
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where
from support.cases import Case, read_cases
from support.engines import LOCAL_NEAR, join_in_process
from support.kinds import Spec, defined_rows
from support.tables import difference

AGGREGATED = [
    *((kind, algorithm) for kind in ("range", "overlap", "where") for algorithm in LOCAL_NEAR[kind]),
    # What engines run for equal keys is a predicate join.
    *(("equi", algorithm) for algorithm in LOCAL_NEAR["where"]),
]


CASES = [
    (case, algorithm) for kind, algorithm in AGGREGATED for case in read_cases(kind) if getattr(case.spec, "agg", None)
]


@pytest.mark.parametrize(("case", "algorithm"), CASES, ids=str)
def test_case(case: Case, algorithm: str):
    if case.error is not None:
        with pytest.raises(case.error):
            join_in_process(case.spec, case.left, case.right, algorithm)
        return
    check(join_in_process(case.spec, case.left, case.right, algorithm), case.expected)


ROUNDED = ("_sum", "_mean", "_std", "_median", "_quantile")
"""In the names of aggregates that are computed in floats."""


def is_close(ours: float | None, theirs: float | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    both_nan = math.isnan(ours) and math.isnan(theirs)
    return both_nan or math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-12)


def check(answer: pa.Table, expected: pa.Table) -> None:
    """Compare two answers: floats that were computed up to their last digits, all else exactly."""
    assert answer.schema == expected.schema
    rounded = [name for name in expected.column_names if any(part in name for part in ROUNDED)]
    rounded = [name for name in rounded if pa.types.is_floating(expected.schema.field(name).type)]
    for name in rounded:
        pairs = zip(answer[name].to_pylist(), expected[name].to_pylist(), strict=True)
        assert all(is_close(ours, theirs) for ours, theirs in pairs), f"{name}: {answer[name]} {expected[name]}"
    problem = difference(answer.drop_columns(rounded), expected.drop_columns(rounded), ordered=True)
    assert problem is None, problem


@pytest.mark.parametrize(("kind", "algorithm"), AGGREGATED)
@given(data=st.data())
def test_tables(kind, algorithm, data):
    example = data.draw(near_examples(kind, agg=True))
    answer = join_in_process(example.spec, example.left, example.right, algorithm)
    problem = difference(answer, example.defined_rows(), ordered=True)
    assert problem is None, problem


@pytest.mark.parametrize(("kind", "algorithm"), AGGREGATED)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_right_rows_does_not_matter(kind, algorithm, data, seed):
    example = data.draw(near_examples(kind, agg=True))
    rows = list(range(example.right.num_rows))
    random.Random(seed).shuffle(rows)
    # Row by row, since Arrow cannot take rows of all types.
    shuffled = pa.concat_tables([example.right.slice(0, 0), *(example.right.slice(row, 1) for row in rows)])
    answers = [join_in_process(example.spec, example.left, right, algorithm) for right in (example.right, shuffled)]
    assert difference(answers[1], answers[0], ordered=True) is None


FUNCTIONS = [
    "sum",
    "mean",
    "min",
    "max",
    "count",
    "median",
    ("quantile", 0.3),
    ("weighted_mean", "w"),
    "count_distinct",
]
NUMBERS = {
    "i": (pa.int8(), [0, 1, -1, 127, -128, None]),
    "u": (pa.uint64(), [0, 1, 2**60, None]),
    "f": (pa.float64(), [0.1, -0.1, 1e15, -1e15, 3.25, 1e-3, None]),
    "g": (pa.float32(), [0.5, -2.0, 16777216.0, math.inf, math.nan, None]),
    "d": (pa.decimal128(10, 2), [0, 1, -1, 12345678, None]),
}


@st.composite
def number_tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Return intervals on a short line with a key, the right ones with numbers."""
    small = st.integers(0, 8)
    row = st.tuples(small, small, st.integers(0, 1))
    sides = []
    for _ in range(2):
        rows = draw(st.lists(row, max_size=20))
        columns = {
            "s": [min(one, other) for one, other, _ in rows],
            "e": [max(one, other) for one, other, _ in rows],
            "k": [key for _, _, key in rows],
        }
        sides.append(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
    left, right = sides
    for name, (data_type, values) in {**NUMBERS, "w": (pa.float32(), [0.0, 1.0, 2.5, -1.0, None])}.items():
        chosen = draw(st.lists(st.sampled_from(values), min_size=right.num_rows, max_size=right.num_rows))
        right = right.append_column(name, pa.array(chosen, data_type))
    return left, right


def numeric_spec(kind: str, columns: Iterable[str], functions: list[str]) -> Spec:
    agg = dict.fromkeys(columns, functions)
    if kind == "range":
        return Range(left_on="s", right_on="s", by="k", lower=-2, upper=1, agg=agg)
    if kind == "where":
        return Where("l.s + r.e < 9 AND l.s <= r.s", by="k", agg=agg)
    if kind == "equi":
        return Equi(on="k", where="l.s * r.e < 20", agg=agg)
    return Overlap(left_interval=("s", "e"), right_interval=("s", "e"), by="k", closed="both", agg=agg)


@pytest.mark.parametrize(("kind", "algorithm"), AGGREGATED)
@given(tables=number_tables())
def test_sums_and_what_is_made_of_them(kind, algorithm, tables):
    spec = numeric_spec(kind, NUMBERS, FUNCTIONS)
    check(join_in_process(spec, *tables, algorithm), defined_rows(spec, *tables))


@pytest.mark.parametrize(("kind", "algorithm"), AGGREGATED)
@given(tables=number_tables())
def test_large_values_elsewhere_do_not_show_in_a_standard_deviation(kind, algorithm, tables):
    spec = numeric_spec(kind, NUMBERS, ["std"])
    check(join_in_process(spec, *tables, algorithm), defined_rows(spec, *tables))


SQUARES_BEYOND_FLOATS = [1e300, -1e300, 1.7e308, -1.7e308, 1.0, 2.0, 3e-200, 5e-200, 0.0, None]


@pytest.mark.parametrize(("kind", "algorithm"), AGGREGATED)
@given(tables=number_tables(), data=st.data())
def test_a_standard_deviation_is_a_float_where_its_square_is_none(kind, algorithm, tables, data):
    left, right = tables
    size = right.num_rows
    wide = data.draw(st.lists(st.sampled_from(SQUARES_BEYOND_FLOATS), min_size=size, max_size=size))
    right = right.select(["s", "e", "k"]).append_column("w", pa.array(wide, pa.float64()))
    spec = numeric_spec(kind, ["w"], ["std"])
    answers = [join_in_process(spec, left, right, algorithm), defined_rows(spec, left, right)]
    for ours, theirs in zip(*(answer["w_std"].to_pylist() for answer in answers), strict=True):
        assert ours == theirs or math.isclose(ours, theirs, rel_tol=1e-14), (ours, theirs)


NEAR = [(spec, condition) for spec, condition in CONDITIONS if isinstance(spec, Range | Overlap)]


@pytest.mark.parametrize(("spec", "condition"), NEAR, ids=NAMES[: len(NEAR)])
def test_duckdb_on_more_rows_than_fit_one_batch_of_work(spec, condition):
    chance = np.random.default_rng(7)
    left, right = (side(chance, 20_000, 200, 2_000) for _ in range(2))
    expected = in_duckdb("agg", condition, left, right)
    algorithm = "binary_search" if isinstance(spec, Range) else "interval_tree"
    ours = join_in_process(asked(spec, "agg"), left, right, algorithm).select(expected.column_names)
    assert ours.sort_by("row").equals(expected.sort_by("row").cast(ours.schema))
