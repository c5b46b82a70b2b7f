"""Spark SQL expressions over one table in this process, parsed by sqlglot and run by DuckDB.

Types are Spark's where the two differ: sums of integers are ``bigint``, parts of times and lengths of text ``int``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from pyarrow.dataset import Dataset
from sqlglot import exp
from sqlglot.errors import SqlglotError

from juncture.errors import DataError, SchemaError, did_you_mean
from juncture.incremental.expressions.evaluation import first_sentence
from juncture.pipeline.model import Derived, SqlStep

TABLE = "juncture_rows"
"""The name of a step's input in the SQL of the step."""

_BATCH_ROWS = 1 << 16

_INTS = (
    *(exp.Year, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.Quarter, exp.WeekOfYear),
    *(exp.Hour, exp.Minute, exp.Second, exp.Length, exp.DateDiff, exp.StrPosition),
)
"""Functions that return 32-bit integers in Spark, and wider ones in DuckDB."""

_DATES = (exp.TsOrDsAdd, exp.AddMonths, exp.LastDay)  # functions that return dates in Spark, and timestamps in DuckDB


class ExpressionError(SchemaError):
    """An expression does not fit the columns. `key` is the path of the expression within its step."""

    def __init__(self, key: tuple[str | int, ...], message: str, *, name: str = "JN-EXPRESSION-INVALID") -> None:
        self.key = key
        super().__init__(message, name=name)


class UnknownFunctionError(ExpressionError):
    """An expression has a function that only Spark may have."""


def query_of(step: Derived | SqlStep, schemas: Mapping[str, pa.Schema]) -> tuple[str, dict[str, str]]:
    """Return a step as a query of DuckDB, and its inputs by the names that they have there, given their columns."""
    if isinstance(step, SqlStep):
        return step.sql, {name: name for name in step.inputs}
    with _connected(None) as connection:
        connection.register(TABLE, schemas[step.from_].empty_table())
        return _Stages(connection, step).sql, {TABLE: step.from_}


def derived_schema(step: Derived, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a step's result, without rows."""
    with _connected(None) as connection:
        return _relation(connection, step, schema.empty_table()).to_arrow_reader(_BATCH_ROWS).schema


def sql_schema(step: SqlStep, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema of an SQL step, whose inputs have these schemas."""
    with _connected(None) as connection:
        tables = [schema.empty_table() for schema in schemas]
        return _query(connection, step, tables).to_arrow_reader(_BATCH_ROWS).schema


@contextmanager
def sql_batches(name: str, step: SqlStep, tables: Sequence[Dataset], folder: Path) -> Iterator[pa.RecordBatchReader]:
    """Run an SQL step over its inputs, and yield its rows in batches. It may spill to ``folder``."""
    try:
        with _connected(folder) as connection:
            yield _query(connection, step, tables).to_arrow_reader(_BATCH_ROWS)
    except duckdb.Error as error:
        raise _failed(name, error, "sql") from error


def _query(connection: Any, step: SqlStep, tables: Sequence[Any]) -> Any:
    # A query reads its inputs only, and no variables of Python.
    connection.execute("SET python_enable_replacements = false")
    for name, table in zip(step.inputs, tables, strict=True):
        connection.register(name, table)
    try:
        statements = connection.extract_statements(step.sql)
        if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
            raise ExpressionError(("sql",), "sql= is not one query. Expected a query, such as SELECT … FROM ….")
        return connection.sql(step.sql)
    except duckdb.Error as error:
        message = f"The query does not fit the tables of from: {first_sentence(str(error))}."
        raise ExpressionError(("sql",), message) from error


@contextmanager
def derived_batches(
    name: str, step: Derived, rows: pa.RecordBatchReader, folder: Path
) -> Iterator[pa.RecordBatchReader]:
    """Run a step that may spill to ``folder``, and yield its rows in batches. Errors of reading pass unchanged."""
    raised = list[Exception]()

    def read() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except Exception as error:
            # DuckDB raises an error of its own with the text of this one.
            raised.append(error)
            raise

    try:
        with _connected(folder) as connection:
            reader = pa.RecordBatchReader.from_batches(rows.schema, read())
            yield _relation(connection, step, reader).to_arrow_reader(_BATCH_ROWS)
    except duckdb.Error as error:
        if raised:
            raise raised[0] from error
        raise _failed(name, error, _expressions(step)) from error


def _failed(name: str, error: duckdb.Error, what: str) -> DataError:
    return DataError(
        f"The step {name!r} cannot be computed: {first_sentence(str(error))}. Change {what}, or the parameters "
        "and rows that it reads.",
        name="JN-EXPRESSION-VALUE",
    )


def counted(rows: pa.RecordBatchReader, columns: Sequence[str], folder: Path) -> int:
    """Return the number of key values that occur more than once. Nulls are values."""
    with _connected(folder) as connection:
        connection.register(TABLE, rows)
        keys = ", ".join(exp.column(each, quoted=True).sql("duckdb") for each in columns)
        groups = f"SELECT 1 FROM {TABLE} GROUP BY {keys} HAVING count(*) > 1"
        return int(connection.sql(f"SELECT count(*) FROM ({groups})").fetchall()[0][0])


@cache
def _empty() -> Any:
    """Return an empty database, which is cached because creating one takes longer than a query for columns."""
    return duckdb.connect()


@contextmanager
def _connected(folder: Path | None) -> Iterator[Any]:
    with _empty().cursor() if folder is None else duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        if folder is not None:
            connection.execute(f"SET temp_directory = '{str(folder).replace(chr(39), chr(39) * 2)}'")
        yield connection


def _relation(connection: Any, step: Derived, rows: Any) -> Any:
    connection.register(TABLE, rows)
    return connection.sql(_Stages(connection, step).sql)


class _Stages:
    """The query of a step in DuckDB's SQL, in stages: each reads the columns of the previous one."""

    def __init__(self, connection: Any, step: Derived) -> None:
        self._connection = connection
        self._query: Any = sqlglot.select("*").from_(TABLE)
        self._relation = connection.sql(self.sql)
        if step.filter is not None:
            condition = self._read(step.filter, ("filter",))
            self._add(sqlglot.select("*").where(condition), ("filter",))
        if step.agg is not None:
            for number, key in enumerate(step.by):
                _check_name(key, ("by", number), list(self._relation.columns))
            keys = [exp.column(key, quoted=True) for key in step.by]
            values = [_alias(self._read(text, ("agg", name)), name) for name, text in step.agg.items()]
            query = sqlglot.select(*keys, *values)
            self._add(query.group_by(*keys) if keys else query, ("agg",))
        if isinstance(step.select, dict):
            values = [_alias(self._read(text, ("select", name)), name) for name, text in step.select.items()]
            self._add(sqlglot.select(*values), ("select",))
        elif step.select is not None:
            values = [self._read(text, ("select", number)) for number, text in enumerate(step.select)]
            self._add(sqlglot.select(*values), ("select",))
        if step.distinct:
            self._query = self._over(sqlglot.select("*").distinct())

    @property
    def sql(self) -> str:
        return str(self._query.sql("duckdb"))

    def _over(self, query: Any) -> Any:
        return query.from_(self._query.subquery(TABLE))

    def _add(self, query: Any, key: tuple[str | int, ...]) -> None:
        try:
            relation = self._connection.sql(self._over(query).sql("duckdb"))
        except duckdb.Error as error:
            first = first_sentence(str(error))
            if isinstance(error, duckdb.CatalogException):
                message = f"A function is not available in this process: {first}. Run the pipeline on Spark."
                raise UnknownFunctionError(key, message, name="JN-FUNCTION-UNAVAILABLE") from error
            raise ExpressionError(key, f"The expressions do not fit the columns: {first}.") from error
        self._query = self._over(query)
        wide = [str(each) == "HUGEINT" for each in relation.types]
        if any(wide):
            columns = [exp.column(name, quoted=True) for name in relation.columns]
            values = [
                _alias(exp.cast(column, "bigint", dialect="duckdb"), name) if is_wide else column
                for name, column, is_wide in zip(relation.columns, columns, wide, strict=True)
            ]
            self._query = self._over(sqlglot.select(*values))
        self._relation = self._connection.sql(self.sql)

    def _read(self, text: str, key: tuple[str | int, ...]) -> Any:
        """Parse a Spark expression over the columns of the previous stage, as an expression for DuckDB."""
        try:
            query = sqlglot.parse_one(f"SELECT {text} FROM t", read="spark")
        except SqlglotError as error:
            first = str(error).partition("\n")[0].partition(". Line")[0]
            first = "an operator lacks a side" if first.startswith("Required keyword") else first
            raise ExpressionError(key, f"{text!r} is not valid SQL: {first}.") from error
        if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.args.get("where"):
            raise ExpressionError(key, f"{text!r} is not a single SQL expression. Write one expression per entry.")
        node = query.expressions[0]
        if node.find(exp.Select, exp.Join):
            raise ExpressionError(
                key, f"{text!r} contains a subquery. Write a step for the subquery, and join with it."
            )
        for column in node.find_all(exp.Column):
            if not isinstance(column.this, exp.Star):
                _check_name(column.name, key, list(self._relation.columns))
        # Innermost expressions first.
        for inner in reversed(list(query.find_all(*_INTS, *_DATES, exp.Cast))):
            self._make_as_in_spark(inner)
        return query.expressions[0]

    def _make_as_in_spark(self, node: Any) -> None:
        """Change a part of an expression to have Spark's type and, for casts, Spark's value."""
        if isinstance(node, exp.Cast):
            if node.to.is_type(*exp.DataType.INTEGER_TYPES) and self._is_real(node.this):
                # Spark truncates fractions, DuckDB rounds.
                node.set("this", exp.func("TRUNC", node.this.copy(), dialect="duckdb"))
        elif not isinstance(node.parent, exp.Cast):
            node.replace(exp.cast(node.copy(), "int" if isinstance(node, _INTS) else "date", dialect="duckdb"))

    def _is_real(self, node: Any) -> bool:
        try:
            kind = self._connection.sql(self._over(sqlglot.select(node.copy())).sql("duckdb")).types[0]
        except duckdb.Error:
            return False
        return str(kind).startswith(("DOUBLE", "FLOAT", "DECIMAL"))


def _alias(node: Any, name: str) -> Any:
    return exp.alias_(node, name, quoted=True)


def _check_name(name: str, key: tuple[str | int, ...], names: list[str]) -> None:
    if name.lower() not in {each.lower() for each in names}:
        message = f"Column {name!r} does not exist. {did_you_mean(name, names)}"
        raise ExpressionError(key, message, name="JN-COLUMN-MISSING")


def _expressions(step: Derived) -> str:
    texts = [] if step.filter is None else [f"filter = {step.filter!r}"]
    for key, said in (("agg", step.agg), ("select", step.select)):
        if said is not None:
            texts.append(f"{key} = {list(said.values()) if isinstance(said, dict) else said!r}")
    return ", ".join(texts) or "the step"
