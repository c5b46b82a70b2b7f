"""Parsing of SQL into sqlglot's tree with all columns qualified, and errors that show the place in the query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from juncture.errors import PlanError, SpecError
from juncture.incremental.view.grammar import unread


def _sqlglot() -> Any:
    try:
        return import_module("sqlglot")
    except ImportError as error:
        raise PlanError(
            f"jn.view(…) needs the package 'sqlglot', which is not installed ({error}). Install it: "
            "pip install 'juncture[changes]'.",
            name="JN-PACKAGE-MISSING",
        ) from error


@cache
def _dialect() -> Any:
    """Return DuckDB's dialect with ``MATCH_CONDITION`` as a keyword."""
    sqlglot = _sqlglot()
    duckdb = import_module("sqlglot.dialects").DuckDB
    word = sqlglot.TokenType.MATCH_CONDITION
    tokenizer = type("Tokenizer", (duckdb.Tokenizer,), {"KEYWORDS": {**duckdb.Tokenizer.KEYWORDS, word.name: word}})
    parser = type("Parser", (duckdb.Parser,), {"TABLE_ALIAS_TOKENS": duckdb.Parser.TABLE_ALIAS_TOKENS - {word}})
    return type("ViewSQL", (duckdb,), {"Tokenizer": tokenizer, "Parser": parser})


def parse(sql: str, tables: Mapping[str, Sequence[str]]) -> Any:
    """Return a query as sqlglot's tree, with qualified columns and without stars; raises `SpecError` with the place."""
    sqlglot = _sqlglot()
    errors = import_module("sqlglot.errors")
    qualify = import_module("sqlglot.optimizer.qualify").qualify
    dialect = _dialect()
    try:
        statements = [each for each in sqlglot.parse(sql, dialect=dialect) if each is not None]
    except (errors.ParseError, errors.TokenError) as error:
        problems = getattr(error, "errors", None) or [{}]
        place = problems[0]
        raise SpecError(
            _marked(sql, place.get("line"), place.get("col"), place.get("description", str(error))),
            name="JN-SQL-SYNTAX",
        ) from None
    if len(statements) != 1 or not isinstance(statements[0], sqlglot.exp.Query):
        kinds = ", ".join(type(each).__name__.upper() for each in statements) or "no query"
        raise SpecError(
            f"sql= has {len(statements)} statements ({kinds}). Expected one query, such as SELECT … FROM ….",
            name="JN-SQL-SYNTAX",
        )
    refused = unread(statements[0])
    if refused is not None:
        raise unsupported(sql, *refused)
    schema = {table: dict.fromkeys(columns, "text") for table, columns in tables.items()}
    try:
        return qualify(statements[0], schema=schema, dialect=dialect, quote_identifiers=False)
    except errors.OptimizeError as error:
        raise SpecError(_name_error_text(sql, str(error)), name="JN-SQL-NAME") from None


def _name_error_text(sql: str, message: str) -> str:
    """Return the message for a sqlglot error about names. sqlglot writes the place at its end."""
    text, _, place = message.partition(" Line: ")
    hint = "Correct the name, or write table.column."
    line, _, column = place.partition(", Col: ")
    line, column = line.strip(), column.split("\n")[0].strip()
    if line.isdigit() and column.isdigit():
        return _marked(sql, int(line), int(column), f"{text.rstrip('.')}. {hint}")
    # A message without a place ends with the name.
    name = text.rpartition(":")[2].strip().strip("'\"")
    at = re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE) if name else None
    if at is None:
        return f"sql= has an unknown name: {message}. {hint}"
    return _at(sql, f"{text}. {hint}", at.start(), at.end() - 1)


def _marked(sql: str, line: int | None, column: int | None, message: str) -> str:
    """Return a message with a line of SQL and a mark below the word that ends at the column."""
    if line is None or column is None or not 1 <= line <= len(sql.split("\n")):
        return f"sql= cannot be parsed: {message}"
    text = sql.split("\n")[line - 1]
    first = min(column, len(text))
    while first > 1 and (text[first - 2].isalnum() or text[first - 2] == "_"):
        first -= 1
    return _shown(sql, message, line, first, max(1, column - first + 1))


def _shown(sql: str, message: str, line: int, column: int, width: int) -> str:
    text = sql.split("\n")[line - 1]
    margin = f"  {line} | "
    before = "".join("\t" if each == "\t" else " " for each in text[: column - 1])
    mark = " " * len(margin) + before + "^" * width
    return f"sql= at line {line}, column {column}: {message.rstrip('.')}.\n{margin}{text}\n{mark}"


def _at(sql: str, message: str, start: int, end: int) -> str:
    """Return a message with the line of SQL at a range of characters and a mark below the range."""
    line = sql.count("\n", 0, start) + 1
    column = start - (sql.rfind("\n", 0, start) + 1) + 1
    return _shown(sql, message, line, column, end - start + 1)


def _spans(node: Any) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each word of a node."""
    for each in node.walk():
        if "start" in each.meta:
            yield each.meta["start"], each.meta["end"]


_WORDS = {
    "Window": "over",
    "Exists": "exists",
    "Intersect": "intersect",
    "Except": "except",
    "Qualify": "qualify",
    "Lateral": "lateral",
    "Unnest": "unnest",
    "Values": "values",
    "Pivot": "pivot",
    "With": "recursive",
    "Subquery": "(",
}
"""The keyword of nodes without a position."""


def _place(sql: str, node: Any) -> tuple[int, int] | None:
    """Return the start of a node in the text, and the end of its first word."""
    spans = list(_spans(node))
    if "start" in node.meta:
        return node.meta["start"], node.meta["end"]
    word = _WORDS.get(type(node).__name__)
    if word is not None:
        lowered = sql.lower()
        # The keyword is before the parts of the node, except that OVER is after its function.
        first = spans[0][0] if spans and type(node).__name__ != "Window" else len(sql)
        nearby = min((start for start, _ in spans), default=first)
        at = lowered.find(word, nearby) if type(node).__name__ == "Window" else lowered.rfind(word, 0, nearby + 1)
        at = lowered.find(word) if at < 0 else at
        if at >= 0:
            return at, at + len(word) - 1
    return min(spans) if spans else None


def wrong(sql: str, node: Any, message: str, *, name: str) -> SpecError:
    """Return a named error that shows the part of the query that a node stands for."""
    place = _place(sql, node)
    text = f"sql= at {node.sql('duckdb')}: {message}" if place is None else _at(sql, message, *place)
    return SpecError(text, name=name)


def unsupported(sql: str, node: Any, what: str, instead: str = "") -> SpecError:
    """Return an error for a part of a query that views do not support."""
    return wrong(sql, node, f"Views do not support {what}. {instead}".rstrip(), name="JN-SQL-UNSUPPORTED")
