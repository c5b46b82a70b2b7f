"""Joins of streams give what the join of all rows that came in time gives, and hold no row for too long."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.errors import DataError, JunctureError
from juncture.spec.where import Where
from juncture.streams.order import SideOrder
from juncture.streams.state import ordered
from juncture.testing.pairs import passing
from strategies import Example, examples
from support.streams import SIDES, Streamed, arrange, check, order_values

HOWS = ["inner", "left", "right", "full", "semi", "anti"]

LEFT = pa.schema({"k": pa.int8(), "a": pa.int32(), "u": pa.int32(), "x": pa.float64(), "n": pa.int64()})
RIGHT = pa.schema({"k": pa.int8(), "b": pa.int64(), "w": pa.int32(), "y": pa.float64(), "m": pa.int64()})

BOUNDED = [
    ("l.k = r.k AND l.a > r.b - 3 AND l.a < r.b + 10", "a", "b"),
    ("l.a > r.b - 3 AND l.a < r.b + 10", "a", "b"),
    ("l.k = r.k AND l.a + l.u > r.b - 3 AND l.a + l.u < r.b + 10", "a + u", "b"),
    ("l.a + 1 > r.b + 5 AND l.a + 3 < r.b + 10", "a", "b"),
    ("l.k = r.k AND abs(l.a - r.b) <= 2", "a", "b"),
    ("l.a = r.b", "a", "b"),
    ("l.k = r.k AND l.a - r.b BETWEEN -4 AND 4 AND l.u <> r.w", "a", "b"),
    ("(l.a > r.b - 3 AND l.a < r.b + 3 AND l.u = 1) OR (l.a > r.b - 6 AND l.a < r.b + 1 AND r.w = 0)", "a", "b"),
    ("l.a BETWEEN r.b AND r.b + r.w AND r.w < 4", "a", "b"),
    ("l.a * 2 > r.b - 3 AND l.a * 2 < r.b + 4", "a", "b"),
]
"""Conditions over whole numbers, with an order of each side by which they bound the state."""


def table(schema: pa.Schema, chance: random.Random, rows: int, spread: int) -> pa.Table:
    """Return random rows: small numbers, some of them null beside the orders."""
    columns = []
    for each in schema:
        least, most = {"k": (0, 2), "u": (0, 2), "w": (0, 5)}.get(each.name, (0, spread))
        cells = [chance.randint(least, most) for _ in range(rows)]
        columns.append(pa.array([cell / 2 if pa.types.is_floating(each.type) else cell for cell in cells], each.type))
    numbered = dict(zip(schema.names, columns, strict=True))
    name = schema.names[-1]
    numbered[name] = pa.array(range(rows), schema.field(name).type)
    return pa.table(numbered, schema=schema)


def with_nulls(rows: pa.Table, name: str, chance: random.Random) -> pa.Table:
    place = rows.schema.get_field_index(name)
    cells = [None if chance.random() < 0.1 else cell for cell in rows[name].to_pylist()]
    return rows.set_column(place, rows.schema.field(place), pa.array(cells, rows.schema.field(place).type))


def streamed(predicate, ours, theirs, how, seed, folder=None, *, falling=False) -> Streamed:
    """Return a join of random rows that come about in their orders."""
    chance = random.Random(seed)
    spread = chance.choice([10, 40, 100])
    disorder, delay = chance.choice([(0, 0), (0, 2), (4, 3), (6, 20), (3, 0)])
    orders = [jn.Order(each, delay=delay, descending=falling) for each in (ours, theirs)]
    tables = []
    for side, schema, order in zip(SIDES, (LEFT, RIGHT), orders, strict=True):
        rows = with_nulls(table(schema, chance, chance.randint(0, 50), spread), "k", chance)
        tables.append(arrange(rows, side, order, chance, disorder=disorder))
    return Streamed(
        Where(predicate, how=how), *tables, [orders[0]], [orders[1]], chance, folder, chance.choice([1, 4, 20])
    )


COMPARED = [-1, 3, ordered.COMPARED_MOST]
"""Pairs to compare for each row up to which rows are held in their order: by key from the first, from some time on, and
never."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("predicate", "ours", "theirs"), BOUNDED)
@given(
    seed=st.integers(0, 2**32 - 1),
    how=st.sampled_from(HOWS),
    falling=st.booleans(),
    compared=st.sampled_from(COMPARED),
)
def test_a_bounded_condition(predicate, ours, theirs, how, seed, falling, compared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("state") if seed % 4 == 0 else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "COMPARED_MOST", compared)
        check(streamed(predicate, ours, theirs, how, seed, folder, falling=falling))


def can_match(join: Streamed, side: str) -> int:
    """Return how many rows of a side that came in time can match a row of the other side that may still come."""
    other = "right" if side == "left" else "left"
    rows, _ = join.came_in_time(side)
    known, _ = join.came_in_time(other)
    [order] = join.orders(other)
    schema = join.table(other).schema
    cells = [(k, value, flag) for k in range(3) for value in range(-130, 240) for flag in range(-1, 7)]
    names = ("k", "b", "w") if other == "right" else ("k", "a", "u")
    columns = {
        name: pa.array([cell[place] for cell in cells], schema.field(name).type) for place, name in enumerate(names)
    }
    for each in schema:
        if each.name not in columns:
            columns[each.name] = pa.array([0] * len(cells), each.type)
    grid = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    came = order_values(known, other, order.expression)
    if came:
        limit = min(came) + order.delay if order.descending else max(came) - order.delay
        mask = [
            value <= limit if order.descending else value >= limit
            for value in order_values(grid, other, order.expression)
        ]
        grid = grid.filter(pa.array(mask))
    predicate = join.spec.resolve(join.left.schema, join.right.schema).predicate
    if side == "left":
        return sum(bool(others) for others in passing(predicate, rows, grid))
    return len({other for others in passing(predicate, grid, rows) for other in others})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("predicate", "ours", "theirs", "falling"),
    [
        # Each condition in each run, and in both directions in a nightly one.
        pytest.param(*each, falling, marks=pytest.mark.nightly if (number + falling) % 2 else [])
        for number, each in enumerate(BOUNDED)
        for falling in (False, True)
    ],
)
def test_no_row_is_held_that_cannot_match(predicate, ours, theirs, falling, monkeypatch):
    for seed, compared in enumerate((-1, ordered.COMPARED_MOST)):
        monkeypatch.setattr(ordered, "COMPARED_MOST", compared)
        join = streamed(predicate, ours, theirs, "full", seed, falling=falling)
        for step, _ in enumerate(join.steps()):
            if step % 5 == 0:
                for side in SIDES:
                    held = getattr(join.join.state, side).rows
                    assert held <= can_match(join, side), (side, step)


ORDERED = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)


def orders_for(rows: pa.Table, side: str, data) -> list[jn.Order]:
    """Return orders by some of the columns whose types have one."""
    names = [each.name for each in rows.schema if any(test(each.type) for test in ORDERED)]
    found = []
    for name in data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []:
        kind = rows.schema.field(name).type
        is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        delays = [None, "1s", "2d"] if is_time else [None, 1, 3]
        order = jn.Order(name, delay=data.draw(st.sampled_from(delays)), descending=data.draw(st.booleans()))
        try:
            SideOrder.of(order, side, rows.schema)
        except JunctureError:
            continue
        found.append(order)
    return found


def for_streams(example: Example) -> Example:
    """Return an as-of join less what streams refuse."""
    ties = "greatest" if example.resolve().goes_by_table_order else example.spec.ties
    return replace(example, spec=replace(example.spec, available_at=None, where=None, ties=ties))


EXAMPLES = {
    "asof": examples(plain=True).map(for_streams),
    **{kind: near_examples(kind, plain=True) for kind in ("range", "overlap")},
    **{f"{kind}, aggregated": near_examples(kind, agg=True, plain=True) for kind in ("range", "overlap")},
}


@pytest.mark.parametrize("kind", EXAMPLES)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_types_and_orders(kind, data, seed, tmp_path_factory):
    example = data.draw(EXAMPLES[kind])
    chance = random.Random(seed)
    tables, orders = [], []
    try:
        for side, rows in zip(SIDES, (example.left, example.right), strict=True):
            found = orders_for(rows, side, data)
            tables.append(arrange(rows, side, found[0], chance, disorder=chance.choice([0, 3])) if found else rows)
            orders.append(found)
        folder = tmp_path_factory.mktemp("state") if seed % 4 == 1 else None
        check(Streamed(example.spec, *tables, *orders, chance, folder, allow_unbounded=True))
    except DataError as error:
        # Streams are compared by 64 bits, and a row needs a place in its order.
        assume(not any(each in str(error) for each in ("64 bits", "64-bit code", "null or NaN in the order")))
        raise


LIKE_WHERE = [
    (
        jn.Range(left_on="a", right_on="b", by="k", lower=-9, upper=2),
        "l.k = r.k AND r.b >= l.a - 9 AND r.b <= l.a + 2",
    ),
    (jn.Range(left_on="a", right_on="b", lower=-4, upper=4, closed="none"), "r.b > l.a - 4 AND r.b < l.a + 4"),
    (
        jn.Range(left_on="a", right_on="b", by="k", lower="u", upper="u"),
        "l.k = r.k AND r.b >= l.a + l.u AND r.b <= l.a + l.u",
    ),
    (jn.Equi(left_on=("k", "a"), right_on=("k", "b")), "l.k = r.k AND l.a = r.b"),
    (jn.Equi(on="k", where="abs(l.a - r.b) < 5"), "l.k = r.k AND abs(l.a - r.b) < 5"),
    (
        jn.Overlap(left_interval=("a", "n"), right_interval=("b", "m"), by="k"),
        "l.k = r.k AND l.a < r.m AND r.b < l.n",
    ),
]


@pytest.mark.parametrize(("spec", "predicate"), LIKE_WHERE)
@settings(max_examples=settings.default.max_examples // 2)
@given(seed=st.integers(0, 2**32 - 1))
def test_other_kinds_hold_what_a_predicate_does(spec, predicate, seed):
    held = []
    order = "a + u" if "l.u" in predicate else "a"
    for each in (spec, Where(predicate)):
        join = streamed(predicate, order, "b", "inner", seed)
        tables = [with_ends(rows, *names) for rows, names in ((join.left, ("a", "n")), (join.right, ("b", "m")))]
        orders = join.left_orders, join.right_orders
        again = Streamed(each, *tables, *orders, random.Random(seed), most=4)
        held.append([(again.join.state.left.rows, again.join.state.right.rows) for _ in again.steps()])
    assert held[0] == held[1]


def with_ends(rows: pa.Table, start: str, end: str) -> pa.Table:
    """Return rows that are intervals of some length."""
    place = rows.schema.get_field_index(end)
    ends = [first + 1 + row % 5 for row, first in enumerate(rows[start].to_pylist())]
    return rows.set_column(place, rows.schema.field(place), pa.array(ends, rows.schema.field(place).type))


@settings(max_examples=settings.default.max_examples // 2)
@given(seed=st.integers(0, 2**32 - 1), how=st.sampled_from(HOWS), falling=st.booleans())
def test_a_window_that_varies_by_row_in_its_own_order(seed, how, falling):
    join = streamed("l.a + l.u = r.b", "a + u", "b", how, seed, falling=falling)
    chance = random.Random(seed)
    # A row without a distance matches nothing, and has no place in the order.
    rows = with_nulls(join.left, "u", chance)
    spec = jn.Range(left_on="a", right_on="b", by="k", lower="u", upper="u", how=how)
    check(Streamed(spec, rows, join.right, join.left_orders, join.right_orders, chance, most=4))


def test_a_sum_that_does_not_fit_might_match():
    spec = jn.Range(left_on="n", right_on="m", lower="u", upper="u")
    join = jn.stream(LEFT, RIGHT, spec, left_order=jn.Order("n + u"), right_order=jn.Order("m"))
    rows = pa.record_batch({"k": [1], "a": [1], "u": [9], "x": [0.0], "n": [2**63 - 1]}, schema=LEFT)
    with pytest.raises(DataError, match=r"left row 0 .*'n \+ u'"):
        join.push(left=rows)
