"""Binding of a query by DuckDB: its plan as JSON, the names of its columns, and errors with the position in the SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import SpecError, did_you_mean
from juncture.incremental.expressions.evaluation import first_sentence, locked_database

Json = dict[str, Any]

_UNKNOWN_PLACE = 2**64 - 1


@dataclass(frozen=True)
class Query:
    """A query and the tables that it may read. ``text`` is as written, and ``sql`` as bound, with equal positions."""

    text: str
    sql: str
    tables: Mapping[str, pa.Schema]
    zone: str


@dataclass(frozen=True)
class BoundQuery:
    """DuckDB's plan of a query, and the names of its columns."""

    plan: Json
    names: tuple[str, ...]


def bound(query: Query) -> BoundQuery:
    """Return DuckDB's plan of a query; raises `SpecError` with the position in the query."""
    with locked_database(query.zone).cursor() as connection:
        for name, schema in query.tables.items():
            _declare(connection, name, schema)
        answer = connection.execute("SELECT json_serialize_plan(?, optimize := false)", [query.sql]).fetchall()[0][0]
        if not answer:
            raise unsupported(query, "a constant of a type that DuckDB cannot describe")
        # DuckDB writes numbers that JSON lacks as NAN and INF.
        result = json.loads(re.sub(r'(?<="value":)(-?)(nan|inf)\b', _not_finite, answer, flags=re.IGNORECASE))
        if result["error"]:
            raise _error(query, result)
        plans = result["plans"]
        if len(plans) != 1:
            raise SpecError(
                f"sql= has {len(plans)} statements. Expected one query, such as SELECT … FROM ….", name="JN-SQL-SYNTAX"
            )
        try:
            described = connection.execute(f"DESCRIBE {query.sql}").fetchall()
        except duckdb.Error as error:
            message = f"sql= is not a query: {first_sentence(str(error))}. Expected one query, such as SELECT … FROM …."
            raise SpecError(message, name="JN-SQL-SYNTAX") from None
    return BoundQuery(plans[0], tuple(row[0] for row in described))


def _not_finite(match: re.Match[str]) -> str:
    return "NaN" if match[2].lower() == "nan" else f"{match[1]}Infinity"


def _declare(connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema) -> None:
    """Create an empty table. Columns of types that DuckDB lacks do not exist in queries."""
    try:
        connection.register("declared", schema.empty_table())
        connection.execute(f"CREATE TEMP TABLE {quoted(name)} AS FROM declared")
    except duckdb.NotImplementedException:
        fields = [field for field in schema if _exists(connection, field)]
        if not fields or len(fields) == len(schema):
            raise
        _declare(connection, name, pa.schema(fields))
    finally:
        connection.unregister("declared")


def _exists(connection: duckdb.DuckDBPyConnection, field: pa.Field) -> bool:
    try:
        connection.register("declared", pa.schema([field]).empty_table())
        connection.execute("DESCRIBE FROM declared")
    except duckdb.NotImplementedException:
        return False
    return True


@cache
def volatile_functions() -> frozenset[str]:
    """Return the functions whose value depends on more than their arguments, such as the time or settings."""
    rows = locked_database("UTC").execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'scalar' "
        "AND stability <> 'CONSISTENT'"
    )
    # DuckDB calls the others consistent.
    others = {"current_localtime", "current_localtimestamp", "age of one argument", "reservoir_quantile"}
    return frozenset(name for (name,) in rows.fetchall()) - {"error"} | others


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


# Errors


def _error(query: Query, result: Json) -> SpecError:
    """Return the error for DuckDB's report of what is wrong."""
    message = result["error_message"].split("\n")[0].rstrip("!.")
    subtype, kind = result.get("error_subtype"), result.get("type")
    if subtype == "COLUMN_NOT_FOUND" and "not found" in message:
        names = dict.fromkeys(column for schema in query.tables.values() for column in schema.names)
        message = f"{message}. {did_you_mean(str(result.get('name')), names)}"
    elif subtype == "MISSING_ENTRY" and kind == "Table":
        message = f"{message}. {did_you_mean(str(result.get('name')), query.tables)}"
    start, width = (int(each) for each in result.get("location", "[-1,0]").strip("[]").split(","))
    if start < 0:
        start = int(result.get("position", -1))
    report = f"error {result.get('error_type', '').lower()}: {subtype} {result['error_message']}"
    name = next((name for name, texts in _ERRORS if any(text in report for text in texts)), "JN-SQL-UNSUPPORTED")
    return marked(query, message, start if start >= 0 else None, width, name=name)


_ERRORS = (
    ("JN-SQL-SYNTAX", ("error parser",)),
    ("JN-SQL-MATCH-CONDITION", ("ASOF",)),
    ("JN-SQL-NAME", ("COLUMN_NOT_FOUND", "MISSING_ENTRY", "Ambiguous", "AMBIGUOUS_REFERENCE", "Referenced table")),
    ("JN-SQL-NAME", ("does not have a column", "does not exist", "out of range - should be")),
    ("JN-SQL-COLUMN-COUNT", ("same number of", "columns available", "column names for")),
    ("JN-SQL-GROUP", ("GROUP BY", "aggregate", "HAVING")),
    ("JN-SQL-TYPE", ("NO_MATCHING_FUNCTION", "type", "error conversion")),
)
"""Names of errors, and texts by which DuckDB's reports are recognized."""


def unsupported(query: Query, what: str, part: Json | None = None, instead: str = "") -> SpecError:
    """Return an error for a part of a query that views do not support."""
    location = _UNKNOWN_PLACE if part is None else part.get("query_location", _UNKNOWN_PLACE)
    start = None if location == _UNKNOWN_PLACE else int(location)
    width = 0 if part is None else int(part.get("query_location_length", 0))
    called = None if part is None or start is not None else _call_of(query.text, part)
    if called is not None:
        start, width = called
    message = f"Views do not support {what}. {instead}".rstrip()
    return marked(query, message, start, width, name="JN-SQL-UNSUPPORTED")


def _call_of(sql: str, part: Json) -> tuple[int, int] | None:
    """Return the position in bytes of the first call of the function of an expression."""
    path = (part.get("qname") or {}).get("path") or [""]
    match = re.search(rf"\b{re.escape(path[-1])}(?=\s*\()", sql, re.IGNORECASE) if path[-1] else None
    return None if match is None else (len(sql[: match.start()].encode()), len(match[0].encode()))


def marked(query: Query, message: str, start: int | None, width: int, *, name: str) -> SpecError:
    """Return an error with the line of the query at a position in bytes, and a mark below it."""
    text = query.text
    if start is None or not text.strip():
        return SpecError(f"sql= is not supported: {message.rstrip('.')}.", name=name)
    before = text.encode()[:start].decode(errors="ignore")
    part = text.encode()[start : start + width].decode(errors="ignore") or _word(text[len(before) :])
    line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
    source_line = text.split("\n")[line]
    width = max(1, min(len(part.split("\n")[0].rstrip()), len(source_line) - column))
    margin = f"  {line + 1} | "
    lead = "".join("\t" if each == "\t" else " " for each in source_line[:column])
    return SpecError(
        f"sql= at line {line + 1}, column {column + 1}: {message.rstrip('.')}.\n"
        f"{margin}{source_line}\n{' ' * len(margin)}{lead}{'^' * width}",
        name=name,
    )


def _word(text: str) -> str:
    end = 0
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return text[: end or 1]


# ASOF JOIN … MATCH_CONDITION


def with_conditions_joined(sql: str) -> str:
    """Return a query with ``MATCH_CONDITION (…) ON …`` as ``ON (…) AND …``, at equal positions."""
    if "match_condition" not in sql.lower():
        return sql
    starts = [start for start, _ in duckdb.tokenize(sql)]
    ends = [*starts[1:], len(sql)]
    words = [sql[start:end].split("--")[0].strip() for start, end in zip(starts, ends, strict=True)]
    text = list(sql)
    for position, word in enumerate(words[:-1]):
        if word.lower() != "match_condition" or words[position + 1] != "(":
            continue
        depth, end = 0, position + 1
        while end < len(words):
            depth += (words[end] == "(") - (words[end] == ")")
            if not depth:
                break
            end += 1
        following = words[end + 1].lower() if end + 1 < len(words) else ""
        start = starts[position]
        text[start : start + len(word)] = "ON".ljust(len(word))
        if following == "on":
            # The blank before ON makes room for AND.
            at = starts[end + 1]
            text[at - 1 : at + 2] = "AND" if sql[at - 1].isspace() else ["AN", "D", " "]
    return "".join(text)


# Types


@dataclass(frozen=True)
class ArrowTypes:
    """The Arrow types of DuckDB's types. Sums of integers have 64 bits, and fail beyond."""

    zone: str

    def of(self, info: Json) -> pa.DataType | None:
        """Return the Arrow type of a DuckDB type; None if views have no values of this type."""
        name, more = info["id"], info.get("type_info") or {}
        if name in _TYPES:
            return _TYPES[name]
        if name in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"):
            return pa.timestamp("ns" if name == "TIMESTAMPTZ_NS" else "us", self.zone)
        if name == "DECIMAL":
            return pa.decimal128(more["width"], more["scale"])
        if name in ("LIST", "ARRAY"):
            child = self.of(more["child_type"])
            if child is None:
                return None
            return pa.list_(child) if name == "LIST" else pa.list_(child, more["size"])
        if name in ("STRUCT", "MAP"):
            return self._nested(name, more)
        return None

    def _nested(self, name: str, more: Json) -> pa.DataType | None:
        children = more["child_types"] if name == "STRUCT" else more["child_type"]["type_info"]["child_types"]
        types = [self.of(each["second"]) for each in children]
        if any(each is None for each in types):
            return None
        if name == "MAP":
            return pa.map_(*types)
        return pa.struct([(each["first"], data_type) for each, data_type in zip(children, types, strict=True)])


_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "HUGEINT": pa.int64(),
    "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(), "CHAR": pa.string(), "BLOB": pa.binary(), "UUID": pa.string(),
    "DATE": pa.date32(), "TIME": pa.time64("us"), "TIME_NS": pa.time64("ns"),
    "TIMESTAMP": pa.timestamp("us"), "TIMESTAMP_S": pa.timestamp("s"), "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "INTERVAL": pa.duration("us"),
    "NULL": pa.int32(), "SQLNULL": pa.int32(),
}  # fmt: skip


def session_zone(schemas: Mapping[str, pa.Schema]) -> str:
    """Return the time zone of all zoned columns; UTC if they differ."""
    zones = {each.tz for schema in schemas.values() for each in schema.types if pat.is_timestamp(each) and each.tz}
    return str(zones.pop()) if len(zones) == 1 else "UTC"
