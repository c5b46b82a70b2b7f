"""What happens at large sizes, brought about at small ones: many parts, stripes, pieces and floods of ties."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import get_args

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from juncture import testing as reference
from juncture.errors import DataError, SchemaError
from juncture.local.asof.join import find
from juncture.local.kinds import execute as execute_in
from juncture.runtime.context import join_context
from juncture.runtime.memory import MEMORY_BYTES
from juncture.runtime.sources import TableSource
from juncture.spec.schema import How
from strategies import Example, examples
from support.engines import execute
from support.small import SMALL, plan_in_pieces
from support.tables import difference, read_table

MEMORIES = [MEMORY_BYTES, 1, 1_500, 7_200]
"""Memory for any number of ties, for one (of 150 bytes, in an eighth of it) and for six at once."""


def sides(example: Example) -> tuple[TableSource, TableSource]:
    return TableSource(example.left, SMALL.slice_rows), TableSource(example.right, SMALL.slice_rows)


def check(example: Example, *, algorithm: str, threads: int, memory_bytes: int = MEMORY_BYTES) -> None:
    join = example.resolve()
    left, right = sides(example)
    options = {"threads": threads, "memory_bytes": memory_bytes, "sizes": SMALL}
    try:
        expected = reference.asof_join(join, example.left, example.right)
    except DataError as error:
        with pytest.raises(DataError, match=error.name):
            list(execute(join, left, right, algorithm, **options))
        return
    batches = execute(join, left, right, algorithm, **options)
    problem = difference(pa.Table.from_batches(batches, expected.schema), expected, ordered=True)
    assert problem is None, problem


def check_stream(example: Example, *, algorithm: str, memory_bytes: int) -> None:
    join = example.resolve()
    batches = execute(join, *sides(example), algorithm, threads=2, memory_bytes=memory_bytes, sizes=SMALL)
    try:
        expected = reference.asof_join(join, example.left, example.right)
    except DataError as error:
        with pytest.raises(DataError, match=error.name):
            list(batches)
        return
    assert difference(pa.Table.from_batches(batches, expected.schema), expected, ordered=True) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", ["probe", "merge"])
@given(
    example=examples(more=True, rows=18),
    threads=st.integers(1, 3),
    memory_bytes=st.sampled_from(MEMORIES),
)
def test_small_pieces_give_the_same_rows(algorithm, example, threads, memory_bytes):
    check(example, algorithm=algorithm, threads=threads, memory_bytes=memory_bytes)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", ["probe", "merge"])
@given(example=examples(more=True, rows=18), memory_bytes=st.sampled_from([1, 2_000]))
def test_a_stream_of_pieces_has_the_same_rows(algorithm, example, memory_bytes):
    check_stream(example, algorithm=algorithm, memory_bytes=memory_bytes)


@pytest.mark.parametrize("how", get_args(How))
# Each is two joins.
@pytest.mark.one_in(2)
@settings(max_examples=settings.default.max_examples // 2)
@given(
    example=examples(more=True, rows=18),
    # Up to so many that no tie has to be decided.
    matches=st.sampled_from([1, 2, 3, 18]),
    ordered=st.booleans(),
    algorithm=st.sampled_from(["probe", "merge"]),
    memory_bytes=st.sampled_from([1, 1, 2_000]),
)
def test_every_join_means_the_same_in_pieces(how, example, matches, ordered, algorithm, memory_bytes):
    order_by = example.right.column_names[-1:] if ordered else ()
    for ties in ("greatest", "error"):
        spec = replace(example.spec, how=how, ties=ties, matches=matches, order_by=order_by)
        try:
            spec.resolve(example.left.schema, example.right.schema)
        except SchemaError:
            # Right rows without a match would fill a left column of another type.
            assume(False)
        check_stream(replace(example, spec=spec), algorithm=algorithm, memory_bytes=memory_bytes)


def test_nothing_is_spilled_where_left_rows_and_output_fit_one_after_the_other():
    rows = 1_000
    table = pa.table({"ts": range(rows), "v": [0.5] * rows})
    join = jn.Asof(on="ts").resolve(table.schema, table.schema)
    sides = TableSource(table), TableSource(table)
    spilled = {}
    # Searched, a left row takes 72 bytes of 0.3 of the memory, and then 45 of a half of it.
    for memory_bytes in (245_000, 235_000):
        with join_context(threads=1, memory_bytes=memory_bytes) as context:
            batches = execute_in(join, *sides, "probe", context)
            assert sum(batch.num_rows for batch in batches) == rows
            spilled[memory_bytes] = context.spill.spilled_bytes
    assert spilled[245_000] == 0 < spilled[235_000]


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("order_by", ["v", None])
def test_a_left_row_with_several_matches_comes_once_where_matches_are_not_shown(how, order_by):
    left = pa.table({"ts": pa.array([*range(10), None], pa.int64())})
    right = pa.table({"ts": pa.array(range(10), pa.int64()), "v": list(range(10))})
    spec = jn.Asof(on="ts", how=how, matches=3, ties="error", order_by=order_by or ())
    check_stream(Example(spec, left, right), algorithm="probe", memory_bytes=1)


@given(
    example=examples(more=True, rows=40),
    threads=st.integers(1, 3),
    matches=st.integers(1, 4),
    ons=st.lists(st.integers(0, 2), min_size=40, max_size=40),
    memory_bytes=st.sampled_from(MEMORIES),
)
def test_floods_of_ties_are_settled(example, threads, matches, ons, memory_bytes):
    # One value of `on` in most rows, and any payload to decide.
    right = example.right.append_column("tie", pa.array(ons[: example.right.num_rows], pa.int64()))
    left = pa.table({"ts": pa.array([0, 1, 2, 5], pa.int64())})
    right = right.append_column("at", pa.array([on // 2 for on in ons[: right.num_rows]], pa.int64()))
    spec = replace(
        example.spec, on=None, left_on="ts", right_on="at", by=None, left_by=None, right_by=None, tolerance=None,
        order_by=(), matches=matches, suffix="_other", available_at=None, where=None,
    )  # fmt: skip
    check(Example(spec, left, right), algorithm="probe", threads=threads, memory_bytes=memory_bytes)


@pytest.mark.parametrize("memory_bytes", [1, 7_200])
@pytest.mark.parametrize("how", ["left", "full", "semi"])
@pytest.mark.parametrize(
    "payload",
    [
        "a: int64\nnull\n-9223372036854775808\n-9223372036854775808\nnull",
        "a: string | b: int64\ncommon-prefix-1 | 5\ncommon-prefix-2 | 1\ncommon-prefix-2 | 2\nc | 9",
        "a: float64 | b: bool | c: uint64\nnan | true | 1\nnan | false|2\nnan | true|18446744073709551615\n1|true|3",
        "a: list<int64> | b: int64\n[1] | 1\n[1, 2] | 2\n[] | 3\n[1, 2] | 4",
        "a: int8 | b: int8 | c: int8 | d: int8 | e: int8\n1|1|1|1|1\n1|1|1|1|3\n1|1|1|1|2\n1|1|1|0|9",
    ],
)
def test_ties_that_codes_cannot_tell_apart(payload, how, memory_bytes):
    right = read_table(payload)
    right = right.append_column("ts", pa.array([7] * right.num_rows, pa.int64()))
    left = pa.table({"ts": pa.array([7, 6, 8], pa.int64())})
    for matches in (1, 2, 3, 5):
        spec = jn.Asof(on="ts", how=how, matches=matches)
        check(Example(spec, left, right), algorithm="probe", threads=1, memory_bytes=memory_bytes)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("keys", [1, 3])
def test_rows_that_fall_between_stripes(direction, keys):
    chance = random.Random(keys)

    def table(rows: int, name: str) -> pa.Table:
        # Bursts, so that most buckets are empty and rows belong to slots of a later or earlier bucket.
        on = [chance.choice([0, 1_000, 5_000, 5_100, 90_000]) + chance.randint(0, 80) for _ in range(rows)]
        by = [chance.randrange(keys) for _ in range(rows)]
        return pa.table({"ts": on, "k": by, name: list(range(rows))})

    left, right = table(120, "a"), table(150, "b")
    for exact in (True, False):
        spec = jn.Asof(on="ts", by="k", direction=direction, allow_exact_matches=exact)
        for threads in (1, 3):
            check(Example(spec, left, right), algorithm="probe", threads=threads)


def test_a_left_side_in_pieces_reads_the_right_once_for_each():
    left = pa.table({"ts": pa.array(range(10), pa.int64())})
    right = pa.table({"ts": pa.array(range(10), pa.int64()), "v": list(range(10))})
    join = jn.Asof(on="ts").resolve(left.schema, right.schema)
    for memory_bytes, times in ((MEMORY_BYTES, 1), (1, 3)):
        with join_context(threads=1, memory_bytes=memory_bytes) as context:
            found = find(join, TableSource(left, 4), TableSource(right, 4), context)
        assert found.counts["right_rows_read"] == 10 * times
        assert found.pointers[:, 0].tolist() == list(range(10))


@pytest.mark.parametrize("how", ["left", "anti", "full"])
def test_columns_of_other_types_than_a_join_works_in_go_to_disk_as_well(how):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["a", "b"]))
    fields = [pa.field("ts", pa.int64(), nullable=False), pa.field("k", runs.type, nullable=False)]
    left = pa.table([pa.array([3, 1, 2, 5, 4]), runs], schema=pa.schema(fields))
    right = pa.table({"ts": [1, 4], "v": pa.array(["x", "y"], pa.string_view())})
    spec = jn.Asof(on="ts", how=how)
    join = spec.resolve(left.schema, right.schema)
    answer = plan_in_pieces(left, right, spec, memory_bytes=1).execute()
    assert difference(answer, reference.asof_join(join, left, right), ordered=True) is None


def test_any_names_of_columns_go_to_disk():
    """The columns that a spilled join adds get names that no other column has."""
    left = pa.table({"ts": [3, 1], "left_row": [5, 6]})
    right = pa.table({"ts": [1, 2], "position": [7, 8], "position_": [9, 10], "right_row": [11, 12]})
    spec = jn.Asof(on="ts", how="full")
    answer = plan_in_pieces(left, right, spec, memory_bytes=1).execute()
    assert answer.column_names == ["ts", "left_row", "position", "position_", "right_row"]
    assert answer["position"].to_pylist() == [8, 7]
    assert answer["position_"].to_pylist() == [10, 9]


def test_a_limit_that_the_output_does_not_show():
    """Rows that pandas takes itself, by number, still need what decides their matches, in pieces as well."""
    left = pa.table({"t": [5, 9], "k": ["a", "b"], "limit": [1, 3]})
    right = pa.table({"t": [3, 7], "k": ["a", "b"], "v": [1, 2]})
    spec = jn.Asof(on="t", by="k", tolerance="limit", how="inner")
    answer = plan_in_pieces(left.to_pandas(types_mapper=pd.ArrowDtype), right, spec, memory_bytes=400).execute()
    assert answer["v"].tolist() == [2]
