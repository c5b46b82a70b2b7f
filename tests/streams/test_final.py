"""As-of joins and aggregates of streams: their answers, when rows are final, and which rows are held until then."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from juncture.spec.asof import Asof
from juncture.spec.range import Range
from juncture.spec.where import Where
from support.kinds import defined_rows
from support.streams import SIDES, Streamed, arrange, check, order_values
from support.tables import difference

LEFT = pa.schema({"k": pa.int8(), "t": pa.int64(), "far": pa.int64(), "n": pa.int64()})
RIGHT = pa.schema({"k": pa.int8(), "t": pa.int64(), "v": pa.int64()})
DIRECTIONS = ["backward", "forward", "nearest"]
HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def rows_of(schema: pa.Schema, chance: random.Random, count: int, spread: int, nulls: float) -> pa.Table:
    columns = []
    for each in schema:
        cells = [chance.randint(0, 2 if each.name == "k" else spread) for _ in range(count)]
        if each.name != "t":
            cells = [None if chance.random() < nulls else cell for cell in cells]
        columns.append(pa.array(cells, each.type))
    return pa.table(columns, schema=schema)


def streamed(spec, seed: int, folder=None, *, kind=None, falling=False, most=40) -> Streamed:
    """Return a join of random rows that come about in the order of their time."""
    chance = random.Random(seed)
    disorder, delay = chance.choice([(0, 0), (0, 2), (4, 3), (6, 20)])
    orders = [jn.Order("t", delay=delay, descending=falling) for _ in SIDES]
    tables = []
    for side, schema, order in zip(SIDES, (LEFT, RIGHT), orders, strict=True):
        rows = rows_of(schema, chance, chance.randint(0, most), chance.choice([10, 40]), 0.1)
        if kind is not None:
            place = rows.schema.get_field_index("t")
            rows = rows.set_column(place, "t", rows["t"].cast(kind))
        tables.append(arrange(rows, side, order, chance, disorder=disorder))
    return Streamed(spec, *tables, [orders[0]], [orders[1]], chance, folder, chance.choice([1, 4, 20]))


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(
    seed=st.integers(0, 2**32 - 1),
    how=st.sampled_from(HOWS),
    tolerance=st.sampled_from([0, 3, 1000, "far"]),
    matches=st.sampled_from([1, 1, 2, 3]),
    exact=st.booleans(),
    order_by=st.sampled_from([(), "v"]),
    falling=st.booleans(),
    kind=st.sampled_from([None, pa.float64(), pa.int16()]),
)
def test_asof(direction, seed, how, tolerance, matches, exact, order_by, falling, kind, tmp_path_factory):
    spec = Asof(
        on="t", by="k", direction=direction, how=how, tolerance=tolerance, matches=matches,
        allow_exact_matches=exact, order_by=order_by, coalesce=False,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("state") if seed % 4 == 1 else None
    check(streamed(spec, seed, folder, kind=kind, falling=falling))


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(seed=st.integers(0, 2**32 - 1), how=st.sampled_from(HOWS))
def test_asof_without_keys_and_tolerance(direction, seed, how):
    check(streamed(Asof(on="t", direction=direction, how=how), seed))


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(seed=st.integers(0, 2**32 - 1), matches=st.sampled_from([1, 2]))
def test_ties_that_are_errors(direction, seed, matches):
    check(
        streamed(Asof(on="t", by="k", direction=direction, ties="error", tolerance=5, matches=matches), seed, most=12)
    )


@given(
    seed=st.integers(0, 2**32 - 1),
    how=st.sampled_from(["left", "inner"]),
    closed=st.sampled_from(["both", "left", "right", "none"]),
    ends=st.sampled_from([(-3, 0), (-5, 5), (2, 4), (-7, -1)]),
    falling=st.booleans(),
)
def test_aggregates(seed, how, closed, ends, falling, tmp_path_factory):
    agg = {"*": "count", "v": ["sum", "min", "max", "first", "last", "mean"]}
    spec = Range(on="t", by="k", lower=ends[0], upper=ends[1], closed=closed, how=how, agg=agg)
    folder = tmp_path_factory.mktemp("state") if seed % 4 == 1 else None
    check(streamed(spec, seed, folder, falling=falling))


def still_open(join: Streamed, spec: Asof) -> tuple[int, int]:
    """Return how many left rows something to come may match better, and how many right rows may still be taken."""
    (left, _), (right, _) = (join.came_in_time(side) for side in SIDES)
    keys = sorted({key for key in (*left["k"].to_pylist(), *right["k"].to_pylist()) if key is not None})
    marks = []
    for side, rows in zip(SIDES, (left, right), strict=True):
        came = order_values(rows, side, "t")
        marks.append(max(came) - join.orders(side)[0].delay if came else -30)
    fresh = [{"k": key, "t": t, "v": 10**6} for key in keys for t in range(marks[1], 75)]
    numbered = spec.to_dict() | {"how": "left"}
    plain = Asof.from_dict(numbered)

    def matches(lefts: pa.Table, rights: pa.Table) -> list[tuple]:
        rows = defined_rows(plain, lefts, rights)
        return list(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))

    waiting = []
    for row in range(left.num_rows):
        one = left.slice(row, 1)
        known = matches(one, right)
        better = any(
            matches(one, pa.concat_tables([right, pa.Table.from_pylist([new], RIGHT)])) != known
            for new in fresh
            if new["k"] == one["k"][0].as_py()
        )
        if better:
            waiting.append(row)
    lefts = [left.take(waiting)] if waiting else []
    future = [{"k": key, "t": t, "far": 0, "n": -1} for key in keys for t in range(marks[0], 75)]
    lefts.append(pa.Table.from_pylist(future, LEFT))
    told = right.append_column("row", pa.array(range(right.num_rows), pa.int64()))
    taken = defined_rows(plain, pa.concat_tables(lefts), told)["row"].to_pylist()
    return len(waiting), len({row for row in taken if row is not None})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("matches", [1, 2])
@pytest.mark.parametrize("tolerance", [None, 4])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_row_is_held_for_longer(direction, tolerance, matches):
    by = "k" if tolerance or direction == "backward" else None
    spec = Asof(on="t", by=by, direction=direction, tolerance=tolerance, matches=matches, coalesce=False)
    for seed in range(2):
        join = streamed(spec, seed, most=14)
        # Of rows at one time all are held, whichever would win.
        join.right = distinct(join.right)
        for step, (_, came) in enumerate(join.steps()):
            if step % 3 == 0:
                waiting, wanted = still_open(join, spec)
                assert join.join.state.left.rows <= waiting + came, step
                assert join.join.state.right.rows <= wanted + came, step


def distinct(rows: pa.Table) -> pa.Table:
    seen, kept = set(), []
    for row, pair in enumerate(zip(rows["k"].to_pylist(), rows["t"].to_pylist(), strict=True)):
        if pair not in seen:
            kept.append(row)
        seen.add(pair)
    return rows.take(kept)


@pytest.mark.parametrize("ends", [(-3, 0), (-5, 5), (2, 4)])
def test_no_window_is_held_for_longer(ends):
    spec = Range(on="t", by="k", lower=ends[0], upper=ends[1], how="left", agg={"*": "count"})
    for seed in range(6):
        join = streamed(spec, seed, most=30)
        for _, came in join.steps():
            waiting, inside = open_windows(join, *ends)
            assert join.join.state.left.rows <= waiting + came
            assert join.join.state.right.rows <= inside + came


def open_windows(join: Streamed, lower: int, upper: int) -> tuple[int, int]:
    """Return how many left rows' windows are open, and how many right rows lie in one of these or in one to come.

    A right row counts whatever its key: windows are complete in the order of time, for all keys together.
    """
    (left, _), (right, _) = (join.came_in_time(side) for side in SIDES)
    marks = []
    for side, rows in zip(SIDES, (left, right), strict=True):
        came = order_values(rows, side, "t")
        marks.append(max(came) - join.orders(side)[0].delay if came else -100)
    waiting = [row["t"] for row in left.to_pylist() if row["k"] is not None and row["t"] + upper >= marks[1]]
    first = min([*waiting, marks[0]]) + lower
    return len(waiting), sum(row["k"] is not None and row["t"] >= first for row in right.to_pylist())


@pytest.mark.parametrize(
    "spec", [Asof(on="day", direction="forward"), Range(on="day", upper="-1d", how="full")], ids=["asof", "range"]
)
@pytest.mark.parametrize("side", SIDES)
def test_orders_by_dates_beyond_32_bits(spec, side):
    """A date64 counts as its day, however far that is, so nothing that may match is evicted or late."""
    far = 106_751_991_167 * 86_400_000
    left, right = (
        pa.table({"day": pa.array(days, pa.int64()).cast(pa.date64())}) for days in ([-far, 0, far], [-far, far])
    )
    orders = {"left_order": [], "right_order": [], f"{side}_order": [jn.Order("day")]}
    join = jn.stream(left.schema, right.schema, spec, **orders, allow_unbounded=True)
    output = []
    for row in range(3):
        output += join.push(left=left.slice(row, 1), right=right.slice(row, 1))
    output += join.close()
    answer = pa.Table.from_batches(output, join.schema)
    assert difference(answer, defined_rows(spec, left, right), ordered=False) is None


@pytest.mark.parametrize(("first", "falling", "sign"), [(-32768, False, "<"), (32767, True, ">")])
def test_delays_reach_beyond_the_first_value_of_a_type(first, falling, sign):
    left, right = pa.table({"x": pa.array([first, first], pa.int16())}), pa.table({"y": pa.array([1], pa.int16())})
    spec = Where(f"CAST(l.x AS DECIMAL(9, 3)) {sign} r.y * -1")
    order = jn.Order("x", delay=3, descending=falling)
    join = jn.stream(left.schema, right.schema, spec, left_order=order, right_order=[], allow_unbounded=True)
    output = [*join.push(left=left.slice(0, 1), right=right), *join.push(left=left.slice(1, 1)), *join.close()]
    answer = pa.Table.from_batches(output, join.schema)
    assert difference(answer, defined_rows(spec, left, right), ordered=False) is None
