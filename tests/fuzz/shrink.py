"""The smallest case that fails as a given one does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz.cases import Case
from fuzz.tables import Column, Table
from juncture.spec.schema import plain_type

__all__ = ["shrink"]

SIDES = ("left", "right")


def shrink(case: Case, fails: Callable[[Case], bool], *, seconds: float) -> Case:
    """Make a case smaller for as long as it fails, and time is left.

    Parameters
    ----------
    case
        A case that fails.
    fails
        Tells whether another fails for the same reason.
    seconds
        How long to try.
    """
    until = time.monotonic() + seconds
    tried: set[str] = set()
    smaller: Case | None = case
    while smaller is not None:
        case, smaller = smaller, None
        for candidate in candidates(case):
            if time.monotonic() > until:
                return case
            if repr(candidate) not in tried:
                tried.add(repr(candidate))
                if fails(candidate):
                    smaller = candidate
                    break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Yield cases that are a little smaller, those first that are smaller by much."""
    yield from _plainer_runs(case)
    for side in SIDES:
        table = getattr(case.join, side)
        for rows in _fewer_rows(table.num_rows):
            yield _with_table(case, side, table.keep(rows))
    for side in SIDES:
        table = getattr(case.join, side)
        for place in range(len(table.columns)):
            yield _with_table(case, side, table.without(place))
    yield from _fewer_arguments(case)
    for side in SIDES:
        table = getattr(case.join, side)
        for place, column in enumerate(table.columns):
            for other in _plainer_columns(column):
                yield _with_table(case, side, table.with_column(place, other))


def _with_table(case: Case, side: str, table: Table) -> Case:
    return replace(case, join=replace(case.join, **{side: table}))


def _with_arguments(case: Case, arguments: dict[str, Any]) -> Case:
    return replace(case, join=replace(case.join, arguments=arguments))


def _plainer_runs(case: Case) -> Iterator[Case]:
    """Yield the same join, run in a plainer way."""
    if case.forms != ("as_table", "as_table"):
        yield replace(case, forms=("as_table", "as_table"))
        yield replace(case, forms=("as_table", case.forms[1]))
        yield replace(case, forms=(case.forms[0], "as_table"))
    plain: dict[str, Any] = {
        "cores": 1,
        "partitions": 1,
        "is_small": False,
        "memory": None,
        "said_rows": None,
        "in_batches": False,
    }
    for name, value in plain.items():
        if getattr(case, name) != value:
            yield replace(case, **{name: value})


def _fewer_rows(count: int) -> Iterator[list[int]]:
    """Yield which rows to keep: without a half, a quarter and so on, and at last without each one."""
    size = count
    while size:
        for start in range(0, count, size):
            yield [*range(start), *range(min(count, start + size), count)]
        size //= 2


def _fewer_arguments(case: Case) -> Iterator[Case]:
    arguments = case.join.arguments
    for name in arguments:
        yield _with_arguments(case, {other: value for other, value in arguments.items() if other != name})
    for prefix in ("by", "on"):
        yield from _fewer_pairs(case, prefix)
    for name in ("order_by", "agg"):
        for item in arguments.get(name) or ():
            kept = {key: value for key, value in arguments[name].items() if key != item} if name == "agg" else []
            yield _with_arguments(case, arguments | {name: kept or [each for each in arguments[name] if each != item]})
    for name in ("predicate", "where"):
        for part in _parts(arguments.get(name, "")):
            yield _with_arguments(case, arguments | {name: part})
    simple = {"how": "inner", "direction": "backward", "matches": 1, "closed": "both", "ties": "greatest"}
    for name, value in simple.items():
        if arguments.get(name, value) not in (value, None):
            yield _with_arguments(case, arguments | {name: value})


def _fewer_pairs(case: Case, prefix: str) -> Iterator[Case]:
    """Yield the join without one pair of columns that have to be equal."""
    arguments = case.join.arguments
    names = [name for name in (prefix, f"left_{prefix}", f"right_{prefix}") if isinstance(arguments.get(name), list)]
    for place in range(len(arguments[names[0]]) if names else 0):
        fewer = {name: [*arguments[name][:place], *arguments[name][place + 1 :]] for name in names}
        yield _with_arguments(case, arguments | fewer)


def _parts(predicate: str) -> Iterator[str]:
    """Yield the parts of a condition, and the condition without one of them."""
    for connective in (" AND ", " OR "):
        parts = re.split(rf"(?<=\)){connective}(?=\()", predicate)
        if len(parts) > 1:
            yield from (part[1:-1] for part in parts)
            for place in range(len(parts)):
                yield connective.join([*parts[:place], *parts[place + 1 :]])


def _plainer_columns(column: Column) -> Iterator[Column]:
    plain: dict[str, Any] = {"cuts": (), "spare": (), "entries": 0, "is_nullable": True}
    for name, value in plain.items():
        if getattr(column, name) != value:
            yield replace(column, **{name: value})
    if plain_type(column.type) != column.type:
        yield replace(column, type=plain_type(column.type))
    for place, value in enumerate(column.values):
        for simpler in (None, *column.values[:1]):
            if repr(simpler) != repr(value) and value is not None and column.is_nullable:
                values = (*column.values[:place], simpler, *column.values[place + 1 :])
                yield replace(column, values=values)
