"""Predicates of very many values and terms: they are planned in a moment, and looked up at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn

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


def seconds(spec: Any) -> float:
    """Return the processor's time for a plan."""
    start = time.process_time()
    jn.plan(ROWS, ROWS, spec)
    return time.process_time() - start


@pytest.fixture
def part(request) -> int:
    """Return what part of their length predicates have: the whole in a nightly run."""
    return 1 if request.config.getoption("--all") else 4


def check(predicate: Callable[[int], str], count: int, most_s: float) -> None:
    """Expect that a plan takes a moment, on however busy a machine, and in proportion to the length."""
    seconds(jn.Where(f"l.x = r.x AND ({predicate(8)})"))
    # Once more and once more, since others may be at work on this machine.
    for _ in range(3):
        few, many = (seconds(jn.Where(f"l.x = r.x AND ({predicate(each)})")) for each in (count // 8, count))
        if many < min(most_s, 24 * few + 0.2):
            return
    assert many < most_s
    assert many < 24 * few + 0.2


@pytest.mark.parametrize("name", VALUES)
def test_many_values_are_planned_in_a_moment(name, part):
    check(VALUES[name][0], 100_000 // part, 2.5 / part)


@pytest.mark.parametrize("name", TERMS)
def test_many_terms_are_planned_in_a_moment(name, part):
    check(TERMS[name], 10_000 // part, 2.5 / part)


@pytest.mark.parametrize("name", VALUES)
def test_many_values_are_looked_up_at_once(name, part):
    predicate, found = VALUES[name]
    count = 100_000 // part
    # Values are a microsecond apart, and rows a millisecond.
    found = count // 1_000 if name == "times" else found
    start = time.process_time()
    for spec in (jn.Where(f"l.x = r.x AND ({predicate(count)})"), jn.Equi(on="x", where=predicate(count))):
        assert jn.plan(ROWS, ROWS, spec).execute().num_rows == found
    assert time.process_time() - start < 6 / part


@pytest.mark.parametrize(("name", "found"), {"AND": 0, "OR": 1_000, "many IN": 0, "both sides": 0}.items())
def test_many_terms_are_evaluated_in_a_moment(name, found, part):
    start = time.process_time()
    answer = jn.plan(ROWS, ROWS, jn.Where(f"l.x = r.x AND ({TERMS[name](10_000 // part)})")).execute()
    assert time.process_time() - start < 6 / part
    assert answer.num_rows == found
