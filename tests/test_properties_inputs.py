"""No kind of join gives another answer for the library that its tables are of, or for how little it may hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.errors import DataError, JunctureError, PlanError, SchemaError
from juncture.planner.plan import Plan
from strategies import examples
from support.frames import FRAMES, framed
from support.kinds import SPECS, Spec, defined_rows
from support.small import plan_in_pieces
from support.tables import canonical_rows, difference

Planned = Callable[..., Plan]
KIND = pytest.mark.parametrize("kind", SPECS)


def drawn(data: st.DataObject, kind: str) -> tuple[Spec, pa.Table, pa.Table]:
    """Return a join of some kind."""
    example = data.draw(examples() if kind == "asof" else near_examples(kind))
    return example.spec, example.left, example.right


def passed(data: st.DataObject, table: pa.Table) -> tuple[Any, pa.Table]:
    """Return a table as one of some library, if that has the types, beside what a join sees of it."""
    return framed(data.draw(st.sampled_from(sorted(FRAMES))), table, Path()) or (table, table)


def is_ordered(spec: Spec, right: pa.Table) -> bool:
    """Tell whether the order of the rows is fixed: of equal right rows any may be the one without a match."""
    rows = canonical_rows(right)
    return spec.kind != "asof" or spec.how not in ("right", "full") or len(set(rows)) == len(rows)


def check(spec: Spec, given: tuple[Any, Any], tables: tuple[pa.Table, pa.Table], planned: Planned = jn.plan) -> None:
    """Compare the answer for some inputs with the reference's for the tables that they are."""
    try:
        spec.resolve(tables[0].schema, tables[1].schema)
    except JunctureError as error:
        with pytest.raises(type(error)):
            jn.plan(*given, spec)
        return
    try:
        expected = defined_rows(spec, *tables)
    except DataError:
        with pytest.raises(DataError):
            planned(*given, spec).batches().read_all()
        return
    answer = planned(*given, spec).batches().read_all()
    problem = difference(answer, expected, ordered=is_ordered(spec, tables[1]))
    assert problem is None, problem


@KIND
@given(data=st.data())
def test_tables_of_any_library(kind, data):
    spec, left, right = drawn(data, kind)
    (ours, left), (theirs, right) = passed(data, left), passed(data, right)
    try:
        check(spec, (ours, theirs), (left, right))
    except SchemaError as error:
        # The answer is a table of the left one's library, which may not have the types of the right one's.
        assert "has no type in" in str(error)


@KIND
@given(data=st.data(), memory_bytes=st.sampled_from([1, 400, 2_000]))
def test_budgets_however_small(kind, data, memory_bytes):
    spec, left, right = drawn(data, kind)
    try:
        check(spec, (left, right), (left, right), partial(plan_in_pieces, memory_bytes=memory_bytes))
    except PlanError as error:
        assert "do not fit in memory=" in str(error)
