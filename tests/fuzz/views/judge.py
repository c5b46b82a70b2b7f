"""Whether a view's answer is DuckDB's after every epoch, or the view is refused."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

import juncture as jn
from fuzz.changing import ChangingTable
from fuzz.kind import RIGHT, Outcome, outcome_of, template
from fuzz.views.cases import ViewCase
from fuzz.views.queries import Query
from fuzz.views.terms import dividing_by_zeros_alike, tried
from juncture.errors import JunctureError
from juncture.planner.decision import Engine
from juncture.testing.rows import values

__all__ = ["judge", "same_type"]


REFUSED = (r"JN-SQL-TYPE.*", r"JN-SQL-UNSUPPORTED.*", r"JN-VIEW-VALUE.*")
"""What errors say of expressions, which are all different."""


LAZY = r"\b(WHERE|AND|OR|BETWEEN|IN|CASE|if|coalesce)\b"
"""What need not work out all of its parts."""


class Duck:
    """DuckDB, with the tables of one case as they are after some epochs, in a schema each."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._tables: dict[str, ChangingTable] = {}
        self._schemas: dict[tuple[int, ...], str] = {}

    def begin(self, tables: dict[str, ChangingTable]) -> None:
        """Have the tables of another case."""
        for schema in self._schemas.values():
            self._connection.execute(f"DROP SCHEMA {schema} CASCADE").fetchall()
        self._schemas, self._tables = {}, tables
        self._connection.execute("USE main").fetchall()

    def answer(self, query: str, epochs: tuple[int, ...]) -> pa.Table:
        """Return DuckDB's answer.

        Raises
        ------
        duckdb.Error
            If it has none.
        """
        if epochs not in self._schemas:
            self._add(epochs)
        self._connection.execute(f"USE {self._schemas[epochs]}").fetchall()
        return self._connection.sql(query).to_arrow_table()

    def _add(self, epochs: tuple[int, ...]) -> None:
        schema = self._schemas[epochs] = f"epoch{len(self._schemas)}"
        self._connection.execute(f"CREATE SCHEMA {schema}").fetchall()
        for name, table in self._tables.items():
            # A table of its own, since filters on Arrow's tables have another idea of NaN.
            self._connection.register("rows", without_negative_zeros(table.after(epochs)))
            self._connection.execute(f"CREATE TABLE {schema}.{name} AS SELECT * FROM rows").fetchall()


def without_negative_zeros(table: pa.Table) -> pa.Table:
    """Return a table in which zeros have no sign, as the reference says of the values that DuckDB computes on."""
    for place, field in enumerate(table.schema):
        if pat.is_floating(field.type):
            table = table.set_column(place, field, pc.add(table.column(place), pa.scalar(0.0, field.type)))
    return table


def judge(engine: Engine = "local") -> Callable[[ViewCase, Path], Outcome]:
    """Return what judges cases."""
    duck = Duck()

    def judged(case: ViewCase, folder: Path) -> Outcome:
        duck.begin(case.tables)
        return judged_by(duck, case)

    return judged


def judged_by(duck: Duck, case: ViewCase) -> Outcome:
    """Run a case. Of a query of expressions, each is judged on its own unless all of them are right together."""
    items = case.query.items
    together, raised = followed(case, duck)
    if case.query.shape != "expressions" or len(items) == 1:
        return counted([(together, raised)])
    if together == RIGHT and not raised:
        return counted([(RIGHT, "")] * len(items))
    outcomes = [followed(replace(case, query=replace(case.query, items=(item,))), duck) for item in items]
    if together.status == "failed" and all(outcome.status != "failed" for outcome, _ in outcomes):
        outcomes.append((together, ""))
    return counted(outcomes)


def counted(outcomes: list[tuple[Outcome, str]]) -> Outcome:
    """Return the worst outcome, with how many there are of each."""
    facts = {
        "expressions and queries": [outcome.status for outcome, _ in outcomes],
        "both raise": [raised for _, raised in outcomes if raised],
        "refused": [outcome.signature for outcome, _ in outcomes if outcome.status == "refused"],
    }
    worst = min(
        (outcome for outcome, _ in outcomes), key=lambda each: ("failed", "refused", "right").index(each.status)
    )
    # A case in which some expressions are right is right.
    if worst.status == "refused" and any(outcome.status == "right" for outcome, _ in outcomes):
        worst = RIGHT
    return replace(worst, facts=facts)


def followed(case: ViewCase, duck: Duck) -> tuple[Outcome, str]:
    """Compare a view with DuckDB's answer after every epoch; return also what DuckDB raised."""
    query = str(case.query)
    try:
        view = jn.view(None, query, sources={name: table.pool.schema for name, table in case.tables.items()})
    except Exception as error:
        return outcome_of(error, REFUSED), ""
    answer: Counter[tuple[str, ...]] = Counter()
    raised = ""
    for epoch in range(case.epochs):
        epochs = tuple(range(epoch + 1))
        try:
            expected = duck.answer(query, epochs)
        except duckdb.Error as error:
            expected = error
        before = table_rows(view.result()) if epoch else []
        apply = view.populate if case.populates and not epoch else view.apply
        try:
            given = list(apply(**{name: table.changes(epoch) for name, table in case.tables.items()}))
        except JunctureError as error:
            if isinstance(expected, pa.Table):
                refused = outcome_of(error, REFUSED)
                return replace(refused, signature=f"at an epoch that DuckDB answers: {refused.signature}"), raised
            # Later epochs may remove what this one would have added.
            if epoch and table_rows(view.result()) != before:
                return Outcome("failed", "views: an epoch with an error is taken", query), raised
            return RIGHT, "at an epoch"
        except Exception as error:
            return outcome_of(error), raised
        problem = wrong_changes(view, given, answer)
        if isinstance(expected, pa.Table):
            found = difference(case.query, view.result(), expected)
            if found and not divides_by_zeros_alike(case.query, duck, epochs, view.result()):
                problem = found
        elif any(table.rows(epochs) for table in case.tables.values()) and not (
            of_fewer_digits(expected, query) or is_needless(expected, case.query, duck, epochs, view.result())
        ):
            why = str(expected).partition("\n")[0]
            problem = f"answer to what DuckDB refuses: {template(why)}", f"{why}\n{view.result().to_pylist()}"
        else:
            # Of constants, DuckDB works out expressions without rows too.
            raised = f"DuckDB alone: {template(str(expected))}"
        if problem:
            return Outcome("failed", f"views: wrong {problem[0]}", f"{query}\nepoch {epoch}: {problem[1]}"), raised
    return RIGHT, raised


def of_fewer_digits(error: duckdb.Error, query: str) -> bool:
    """Return whether DuckDB has no answer since it brings numbers to decimals that no pair of rows is compared in."""
    if re.search(r"Division by zero in expression .*(AS DOUBLE\) %|% CAST\(.* AS DOUBLE\))", str(error)):
        # Of remainders of floats, only those with a side that was a decimal fail.
        return True
    cast = re.search(r"(?:Could not cast|Casting) value .* to (?:type )?(DECIMAL\(\d+),(\d+\))", str(error))
    return cast is not None and ", ".join(cast.groups()) not in query


def is_needless(error: duckdb.Error, query: Query, duck: Duck, epochs: tuple[int, ...], result: pa.Table) -> bool:
    """Return whether DuckDB has no answer since it works out what makes no difference, or has an error of its own.

    A part that fails and makes a difference would be NULL, and the view would have failed.
    """
    if isinstance(error, duckdb.InternalException):
        return True
    text = str(query)
    if not re.search(LAZY, text):
        return False
    forgiving = [text.replace("CAST(", "TRY_CAST(")]
    if query.shape != "relations":
        forgiving.append(str(query.changed(tried)))
    for other in forgiving:
        with suppress(duckdb.Error):
            if difference(query, result, duck.answer(other, epochs)) is None:
                return True
    return False


def divides_by_zeros_alike(query: Query, duck: Duck, epochs: tuple[int, ...], result: pa.Table) -> bool:
    """Return whether a result is DuckDB's if -0.0 divides as 0.0 does, as the reference says of views."""
    if " / " not in str(query):
        return False
    try:
        return difference(query, result, duck.answer(str(query.changed(dividing_by_zeros_alike)), epochs)) is None
    except duckdb.Error:
        return False


def difference(query: Query, result: pa.Table, expected: pa.Table) -> tuple[str, str] | None:
    """Return in what a view's result differs from DuckDB's answer, and how; None if it does not."""
    names = expected.column_names
    if [name.lower() for name in result.column_names] != [name.lower() for name in names] and not query.groups:
        return "names", f"{result.column_names}, and DuckDB has {names}"
    result = result.rename_columns(names)
    rounded = query.rounded(names)
    rows, wanted = (table_rows(table.drop_columns(rounded)) for table in (result, expected))
    if Counter(rows) != Counter(wanted):
        return "rows", f"the view has\n{lines(rows)}\nand DuckDB\n{lines(wanted)}"
    for name in rounded:
        one, other = (by_rows(table, name, rounded) for table in (result, expected))
        if any(not is_close(left, right) for left, right in zip(one, other, strict=True)):
            return "sums", f"{name}: the view has {one}, and DuckDB {other}"
    for ours, theirs in zip(result.schema.types, expected.schema.types, strict=True):
        # What DuckDB takes a NULL for follows from what it stands beside.
        if not same_type(ours, theirs) and not re.search(r"(?<!IS )(?<!NOT )\bNULL\b", str(query)):
            pair = [re.sub(r"\d*\(.*\)", "", str(each)) for each in (ours, theirs)]
            return f"type, {pair[0]} for {pair[1]}", f"{result.schema.types}, and DuckDB has {expected.schema.types}"
    return None


def wrong_changes(
    view: jn.View, given: list[pa.RecordBatch], answer: Counter[tuple[str, ...]]
) -> tuple[str, str] | None:
    """Add the changes of an epoch to the answer so far, and return how its rows differ from the view's result."""
    table = pa.Table.from_batches(given, given[0].schema if given else view.result().schema)
    weights = table["_weight"].to_pylist() if given else []
    for row, weight in zip(table_rows(table.drop_columns(["_weight"])) if given else [], weights, strict=True):
        answer[row] += weight
    rows = table_rows(view.result())
    if answer == Counter(rows):
        return None
    shown = "\n".join(f"{weight} x {' | '.join(row)}" for row, weight in answer.items() if weight)
    return "changes", f"they add up to\n{shown}\nand the result is\n{lines(rows)}"


def by_rows(table: pa.Table, name: str, rounded: list[str]) -> list[Any]:
    """Return a column in the order of all columns that are not rounded."""
    others = table_rows(table.drop_columns(rounded))
    pairs = zip(others, table[name].to_pylist(), strict=True)
    return [value for _, value in sorted(pairs, key=lambda pair: (pair[0], str(pair[1])))]


def is_close(one: float | None, other: float | None) -> bool:
    if one is None or other is None or not (math.isfinite(one) and math.isfinite(other)):
        return repr(one) == repr(other)
    return math.isclose(one, other, rel_tol=1e-11, abs_tol=1e-5)


def table_rows(table: pa.Table) -> list[tuple[str, ...]]:
    """Return the rows, written, with zeros without a sign."""
    columns = [[cell(value) for value in values(column)] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def cell(value: Any) -> str:
    if isinstance(value, pa.MonthDayNano) and not value.months:
        value = value.days * 86_400_000_000_000 + value.nanoseconds
    if isinstance(value, int | Decimal):
        return str(Fraction(value))
    return repr(value + 0.0 if isinstance(value, float) else value)


def lines(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(" | ".join(row) for row in sorted(rows)) or "no rows"


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Compare a type of a view with DuckDB's: integers are counted in 64 bits, and their sums in DuckDB in 128."""
    # A column of NULL alone has no type.
    if pat.is_null(one) or pat.is_null(other):
        return True
    if pat.is_duration(one):
        return pat.is_interval(other)
    if pat.is_integer(one):
        return pat.is_integer(other) or other == pa.decimal128(38, 0)
    if pat.is_decimal(one):
        return pat.is_decimal(other) and one.scale == other.scale
    return one == other or (pat.is_large_string(one) and pat.is_string(other))
