"""Predicates of very many values and terms: they are planned in a moment, and looked up at once."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import juncture as jn
from support.calls import calls

ROWS = pa.table(
    {
        "x": pa.array(range(1_000), pa.int64()),
        "word": [f"w{number}" for number in range(1_000)],
        "f": pa.array([number / 2 for number in range(1_000)]),
        "price": pa.array(range(1_000), pa.decimal128(12, 0)).cast(pa.decimal128(14, 2)),
        "at": pa.array(range(0, 1_000_000, 1_000), pa.timestamp("us")),
    }
)


def within(column: str, text: str, count: int) -> str:
    return f"{column} IN ({', '.join(text.format(number) for number in range(count))})"


VALUES: dict[str, tuple[Callable[[int], str], int]] = {
    "numbers": (lambda count: within("l.x", "{}", count), 1_000),
    "negative numbers": (lambda count: f"NOT {within('l.x', '-{}', count)}", 999),
    "numbers after NULL": (lambda count: within("l.x", "{}", count).replace("(", "(NULL, "), 1_000),
    "numbers of both sides": (lambda count: f"{within('l.x + r.x', '{}', count)} OR r.f < 0", 1_000),
    "long numbers": (lambda count: within("l.x", "{}L", count), 1_000),
    "decimals": (lambda count: within("l.price", "{}.00", count), 1_000),
    "floats": (lambda count: within("l.f", "{}", count), 500),
    "texts": (lambda count: within("l.word", "'w{}'", count), 1_000),
    "times": (lambda count: within("l.at", "'1970-01-01 00:00:00.{:06}'", count), 100),
}
TERMS: dict[str, Callable[[int], str]] = {
    "AND": lambda count: " AND ".join(f"l.x <> {number}" for number in range(count)),
    "OR": lambda count: " OR ".join(f"l.x = {number}" for number in range(count)),
    "OR of AND": lambda count: " OR ".join(f"l.x = {n} AND r.x > {n}" for n in range(count // 2)),
    "both sides": lambda count: " AND ".join(
        f"l.x + {number} > r.x" if number % 2 else f"l.f < r.f + {number}" for number in range(count)
    ),
    "many IN": lambda count: " AND ".join(f"l.x NOT IN ({n}, {n + 1}, {n + 2})" for n in range(0, count, 3)),
    "+": lambda count: "l.x" + " + 1" * count + " > r.x",
    "+ of both sides": lambda count: "l.x" + " + r.x - l.x" * (count // 2) + " > 0",
}


def plan(predicate: str) -> jn.Plan:
    return jn.plan(ROWS, ROWS, jn.Where(f"l.x = r.x AND ({predicate})"))


@pytest.fixture
def part(request) -> int:
    """Return what part of their length predicates have: the whole in a nightly run."""
    return 1 if request.config.getoption("--all") else 10


def check_grows_in_proportion(predicate: Callable[[int], str], count: int, most: int) -> None:
    """Expect that a plan takes as much for each value or term of a long predicate as of a short one, and little."""
    plan(predicate(8))
    few, many = (calls(plan, predicate(each))[1] for each in (count // 8, count))
    assert many < most * count
    assert many < 9 * few


@pytest.mark.parametrize("name", VALUES)
def test_many_values_are_planned_in_a_moment(name, part):
    check_grows_in_proportion(VALUES[name][0], 100_000 // part, 60)


@pytest.mark.parametrize("name", TERMS)
def test_many_terms_are_planned_in_a_moment(name, part):
    check_grows_in_proportion(TERMS[name], 10_000 // part, 600)


@pytest.mark.parametrize("name", VALUES)
def test_many_values_are_looked_up_at_once(name, part):
    predicate, found = VALUES[name]
    count = 100_000 // part
    # Values are a microsecond apart, and rows a millisecond.
    found = count // 1_000 if name == "times" else found
    for spec in (jn.Where(f"l.x = r.x AND ({predicate(count)})"), jn.Equi(on="x", where=predicate(count))):
        # The first of a process imports what joins need.
        jn.plan(ROWS, ROWS, spec).execute()
        answer, called = calls(jn.plan(ROWS, ROWS, spec).execute)
        assert answer.num_rows == found
        # Neither a value nor a row is a call.
        assert called < 10_000


@pytest.mark.parametrize(("name", "found"), {"AND": 0, "OR": 1_000, "many IN": 0, "both sides": 0}.items())
def test_many_terms_are_evaluated_in_a_moment(name, found, part):
    plan(TERMS[name](8)).execute()
    _, few = calls(plan(TERMS[name](1_250 // part)).execute)
    answer, many = calls(plan(TERMS[name](10_000 // part)).execute)
    assert answer.num_rows == found
    assert many < 9 * few
