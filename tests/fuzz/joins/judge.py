"""Whether the answer of a case is right."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.types as pat
from polars.exceptions import PanicException

import juncture as jn
from fuzz.compare import problem, shown, without_nan
from fuzz.joins.cases import Case
from fuzz.joins.forms import passed
from fuzz.kind import RIGHT, Outcome, outcome_of
from juncture.columnar.types import plain_type
from juncture.errors import DataError, SchemaError
from juncture.runtime.memory import MEMORY_BYTES
from juncture.spec.resolved import Resolved
from juncture.testing.rows import values
from support.frames import seen
from support.kinds import Spec, defined_rows
from support.small import plan_in_pieces
from support.tables import shown_type

__all__ = ["Run", "judge", "run_in_process"]

Run = Callable[[Case, Spec, Any, Any], Any]
"""Runs the join of a case, given its spec and its two inputs."""

_NO_ROOM = ("the coarsest unit of Polars", "the unit of intervals in DuckDB", "of unmatched right rows")
"""What errors say where the values of an answer do not fit the types of the left table's library."""

_LEFT_ROWS_ONLY = ("inner", "left", "semi", "anti")


def run_in_process(case: Case, spec: Spec, left: Any, right: Any) -> Any:
    """Join as users do."""
    said = None if case.said_rows is None else jn.SideStats(rows=case.said_rows, row_bytes=8)
    stats = None if said is None else jn.Stats(left=said, right=said)
    options = {"memory_bytes": case.memory or MEMORY_BYTES, "cores": case.cores} if case.is_small else {}
    plan_join = plan_in_pieces if case.is_small else jn.plan
    plan = plan_join(left, right, spec, algorithm=case.algorithm, stats=stats, **options)
    return plan.batches().read_all() if case.in_batches else plan.execute()


def judge(case: Case, folder: Path, run: Run = run_in_process) -> Outcome:
    """Run a case, and hold its answer against the reference.

    Parameters
    ----------
    case
        The case.
    folder
        An empty folder for its files and what it spills. It is empty again afterwards.
    run
        What joins.
    """
    sides = zip(case.forms, ("left", "right"), (case.join.left, case.join.right), strict=True)
    try:
        ways = [passed(form, table.arrow(), folder / side) for form, side, table in sides]
    except pa.ArrowInvalid as error:
        # Of structs that are null throughout, it makes dictionaries that it then finds wrong.
        return Outcome("refused", "Arrow makes no such table", str(error))
    with mock.patch.object(tempfile, "tempdir", str(folder)):
        try:
            outcome = _judged(case, run, ways)
        except PanicException as error:
            outcome = outcome_of(error)
    for side in ("left", "right"):
        shutil.rmtree(folder / side, ignore_errors=True)
    left_behind = sorted(path.name for path in folder.iterdir())
    for name in left_behind:
        shutil.rmtree(folder / name)
    if left_behind and outcome.status != "failed":
        outcome = Outcome("failed", "files left behind", str(left_behind))
    return replace(outcome, facts={"forms": [form for form, _, _ in ways]})


def _judged(case: Case, run: Run, ways: list[tuple[str, Any, pa.Table]]) -> Outcome:
    (_, left_given, left), (_, right_given, right) = ways
    try:
        spec = case.spec()
        join = spec.resolve(left.schema, right.schema)
    except Exception as error:
        return outcome_of(error)
    try:
        expected = defined_rows(spec, left, right)
    except DataError:
        expected = None
    except Exception as error:
        return replace(outcome_of(error), status="failed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = run(case, spec, left_given, right_given)
    except DataError as error:
        if expected is None:
            return RIGHT
        outcome = outcome_of(error)
        return outcome if any(reason in str(error) for reason in _NO_ROOM) else replace(outcome, status="failed")
    except Exception as error:
        return outcome_of(error)
    what = f"{case.join.kind} {case.algorithm}"
    if expected is None:
        if case.engine == "spark" and not (left.num_rows and right.num_rows):
            # Spark drops joins with an empty side before it reads the other side, and with it the check of intervals.
            return RIGHT
        return Outcome("failed", f"{what}: no error", "DataError is due, and there are rows.")
    if case.engine == "spark":
        # Spark promises no order, and calls the items of lists as it likes.
        found = problem(join, right, answer, expected, ordered=False, type_of=shown_type)
    elif isinstance(answer, pa.Table):
        found = problem(join, right, answer, expected)
    elif hasattr(answer, "to_arrow_table"):
        # DuckDB has types of its own for the same values.
        try:
            table = answer.to_arrow_table()
        except duckdb.NotImplementedException as error:
            return Outcome("refused", "DuckDB reads no such column", str(error))
        found = problem(join, right, table, _as_duckdb_has_it(expected), type_of=lambda _: None)
    else:
        frame = answer.collect() if hasattr(answer, "collect") else answer
        found = _given_back(join, right, left_given, frame, expected)
    return Outcome("failed", f"{what}: wrong {found[0]}", found[1]) if found else RIGHT


def _given_back(join: Resolved, right: pa.Table, given: Any, answer: Any, expected: pa.Table) -> tuple[str, str] | None:
    """Say how an answer of another library differs from what is expected, its left columns from those passed."""
    if list(answer.columns) != expected.column_names:
        return "columns", f"They are {list(answer.columns)} and should be {expected.column_names}."
    if join.how in _LEFT_ROWS_ONLY:
        frame = given.collect() if hasattr(given, "collect") else given
        for name in frame.columns:
            if answer[name].dtype != frame[name].dtype:
                return "dtype", f"{name!r} is {answer[name].dtype} and was {frame[name].dtype}."
    try:
        found = seen(answer)
    except (SchemaError, PanicException):
        # It may hold as objects what comes from elsewhere, or what Polars itself does not hand out again.
        return None
    # Or it may have other types for it, but the same values.
    is_pandas = hasattr(answer, "index")
    plain, unlike = (_as_pandas_has_it, "map<") if is_pandas else (_as_polars_has_it, "date64")
    # pandas has lists of lists for maps, and Polars has times for dates of 64 bits.
    others = [each.name for each in expected.schema if unlike in str(each.type) and not pat.is_date64(each.type)]
    found, expected = (plain(table.drop_columns(others)) for table in (found, expected))
    return problem(join, right, found, expected, type_of=lambda _: None)


def _as_duckdb_has_it(table: pa.Table) -> pa.Table:
    """Return a table with DuckDB's intervals in place of durations, also within nested values."""
    for place, field in enumerate(table.schema):
        if "duration" in str(field.type):
            intervals = duckdb.from_arrow(table.select([place])).to_arrow_table()
            table = table.set_column(place, field.name, intervals.column(0))
    return table


def _as_polars_has_it(table: pa.Table) -> pa.Table:
    """Return a table with times in place of dates of 64 bits."""
    for place, field in enumerate(table.schema):
        if pat.is_date64(field.type):
            table = table.set_column(place, field.name, table[place].cast(pa.timestamp("ms")))
    return table


def _as_pandas_has_it(table: pa.Table) -> pa.Table:
    """Return a table with null in place of NaN, and of the least time, which pandas does not tell apart.

    Nor has it types within nested values: what they are depends on the rows that there are.
    """
    for place, field in enumerate(table.schema):
        plain = plain_type(field.type)
        if pat.is_nested(plain) or pat.is_timestamp(plain) or pat.is_duration(plain):
            texts = [re.sub(r"\b(\d+)\.0\b", r"\1", without_nan(shown(value))) for value in values(table[place])]
            cells = [None if text == "None" else text for text in texts]
            table = table.set_column(place, field.name, pa.array(cells, pa.string()))
        elif pat.is_floating(plain):
            cells = [None if value is None or math.isnan(value) else value for value in values(table[place])]
            table = table.set_column(place, field.name, pa.array(cells, pa.float64()))
    return table
