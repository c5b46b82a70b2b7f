"""What match reports of joins of many tables count, and how they are shown."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from many.strategies import random_case

SPINE = pa.table({"ts": [3, 9, None, 4], "user": ["ann", "bob", "ann", None], "seen": [5, 5, 5, 5]})
RATES = pa.table({"ts": [1, 8, 8], "rate": [1.0, 2.0, 2.5], "known": [2, 10, 10]})
USERS = pa.table({"user": ["ann", "eve"], "since": [1, 2], "known": [9, 9]})
CLICKS = pa.table({"ts": [1, 2, 2], "user": ["ann", "ann", "bob"], "known": [1, 4, 3]})


def plan() -> jn.ManyPlan:
    window = jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count"})
    return jn.plan_many(
        SPINE,
        {
            "rates": jn.Right(RATES, jn.Asof(on="ts", tolerance=2), check_available_at="known"),
            "users": jn.Right(
                USERS, jn.Equi(on="user", how="left"), prefix="user_", check_available_at=("known", "seen")
            ),
            "clicks": jn.Right(CLICKS, window, check_available_at="known"),
        },
    )


def test_counts_matches_reasons_ties_distances_and_leaks() -> None:
    report = plan().match_report()
    rates, users, clicks = report.values()
    assert (rates.matched, rates.reasons["null_on"], rates.reasons["beyond_tolerance"], rates.ties, rates.leaked) == (
        2,
        1,
        1,
        1,
        1,
    )
    assert rates.distances is not None
    assert (rates.distances.min, rates.distances.max) == (1, 2)
    assert (users.matched, users.reasons, users.leaked) == (
        2,
        {"null_on": 0, "null_key": 1, "unknown_key": 1, "no_candidate": 0, "beyond_tolerance": 0},
        2,
    )
    assert (clicks.matched, clicks.reasons, clicks.leaked) == (
        1,
        {"null_on": 1, "null_key": 1, "unknown_key": 0, "no_candidate": 1, "beyond_tolerance": 0},
        1,
    )


def test_is_shown_as_text_json_and_a_page() -> None:
    report = plan().match_report()
    assert str(report).splitlines()[:4] == [
        "rates",
        "  left rows           4",
        "  right rows          3",
        "  matched             2   50.00%",
    ]
    assert json.loads(report.export("json"))["users"]["leaked"] == 2
    page = report.export("html")
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert "Distance of matches" in page
    assert "leaked" in report._repr_html_()
    with pytest.raises(jn.SpecError, match="format='pdf'"):
        report.export("pdf")  # type: ignore[arg-type]


@given(st.integers(0, 2**32))
def test_counts_what_the_joined_rows_say(seed: int) -> None:
    spine, rights = random_case(seed)
    report = jn.plan_many(spine, rights).match_report()
    for name, right in rights.items():
        matches = matches_of(spine, right)
        each = report[name]
        assert each.left_rows == spine.num_rows
        assert each.matched == sum(1 for found in matches if found), right.spec
        assert each.matched + sum(each.reasons.values()) == spine.num_rows
        if right.check_available_at is None:
            assert each.leaked is None
        else:
            columns = right.check_available_at
            known, own = columns if isinstance(columns, tuple) else (columns, "ts")
            late = [
                found
                for row, found in zip(spine.to_pylist(), matches, strict=True)
                if row[own] is not None and any(one[known] > row[own] for one in found)
            ]
            assert each.leaked == len(late), right.spec


def matches_of(spine: pa.Table, right: jn.Right) -> list[list[dict[str, Any]]]:
    """Return the right rows of each row of the spine, whose ids number them: what a single join of them gives."""
    numbered = right.table.append_column("number", pa.array(range(right.table.num_rows), pa.int64()))
    arguments = right.spec.to_dict() | {"how": "inner"}
    kind = type(right.spec)
    if arguments.pop("agg", None) is not None:
        arguments["suffix"] = "_right"
    if arguments.pop("windows", None) is not None:
        # One of them holds the others.
        arguments["upper"] = 3
    joined = jn.plan(spine, numbered, kind.from_dict(arguments)).execute()
    rows = numbered.to_pylist()
    found: list[list[dict[str, Any]]] = [[] for _ in range(spine.num_rows)]
    for own, other in zip(joined["id"].to_pylist(), joined["number"].to_pylist(), strict=True):
        found[own].append(rows[other])
    return found
