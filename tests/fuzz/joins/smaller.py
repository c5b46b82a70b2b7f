"""Joins that are a little smaller than a given one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fuzz.joins.cases import Case
from fuzz.joins.draw import Join
from fuzz.shrink import fewer
from fuzz.tables import Column
from juncture.columnar.types import plain_type

__all__ = ["smaller", "smaller_joins"]

SIDES = ("left", "right")


def smaller(case: Case) -> Iterator[Case]:
    """Yield cases that are a little smaller, those first that are smaller by much."""
    yield from _plainer_runs(case)
    yield from (replace(case, join=join) for join in smaller_joins(case.join))


def smaller_joins(join: Join, *, with_all_rows: bool = False) -> Iterator[Join]:
    """Yield joins that are a little smaller, with all of their rows if it is asked for."""
    for side in SIDES if not with_all_rows else ():
        table = getattr(join, side)
        for rows in fewer(table.num_rows):
            yield replace(join, **{side: table.keep(rows)})
    for side in SIDES:
        table = getattr(join, side)
        for place in range(len(table.columns)):
            yield replace(join, **{side: table.without(place)})
    yield from (replace(join, arguments=arguments) for arguments in _fewer_arguments(join.arguments))
    for side in SIDES:
        table = getattr(join, side)
        for place, column in enumerate(table.columns):
            for other in _plainer_columns(column):
                yield replace(join, **{side: table.with_column(place, other)})


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


def _fewer_arguments(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in arguments:
        yield {other: value for other, value in arguments.items() if other != name}
    for prefix in ("by", "on"):
        yield from _fewer_pairs(arguments, prefix)
    for name in ("order_by", "agg"):
        for item in arguments.get(name) or ():
            kept = {key: value for key, value in arguments[name].items() if key != item} if name == "agg" else []
            yield arguments | {name: kept or [each for each in arguments[name] if each != item]}
    for name in ("predicate", "where"):
        for part in _parts(arguments.get(name, "")):
            yield arguments | {name: part}
    simple = {"how": "inner", "direction": "backward", "matches": 1, "closed": "both", "ties": "greatest"}
    for name, value in simple.items():
        if arguments.get(name, value) not in (value, None):
            yield arguments | {name: value}


def _fewer_pairs(arguments: dict[str, Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments without one pair of columns that have to be equal."""
    names = [name for name in (prefix, f"left_{prefix}", f"right_{prefix}") if isinstance(arguments.get(name), list)]
    for place in range(len(arguments[names[0]]) if names else 0):
        yield arguments | {name: [*arguments[name][:place], *arguments[name][place + 1 :]] for name in names}


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
