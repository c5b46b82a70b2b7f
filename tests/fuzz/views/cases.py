"""One case of views: a query, its tables and how they change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from fuzz.changing import ChangingTable, random_epochs, smaller_tables
from fuzz.tables import Column, Table
from fuzz.values import extreme
from fuzz.views.queries import Query, narrower, random_query
from fuzz.views.terms import Scope
from juncture.planner.decision import Engine

__all__ = ["ViewCase", "draw", "smaller"]

DECIMALS = [(6, 2), (9, 2), (4, 1), (18, 6), (38, 10), (38, 0), (38, 37), (18, 18), (5, 0)]
TEXTS = ["", " ", "a", "A", " a ", "\ta\n", "A%", "a_b", "a\\b", "a%b", "%", "_", "\\", "É", "ß", "😀x", "ab", "10"]
TEXTS += ["-1.5", "true", "2024-02-29", "b" * 40]
FLOATS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 0.1, -0.3, 1e16, 1e-7, 123456.789]
MODERATE = [float("nan"), 0.0, -0.0, 0.1, 0.2, -0.3, 2.5, 1e9, 1.0, 7.25]
DAYS = [0, -1, 1, 365, 19_782, 19_783, 10_957, -25_567, 20_088]
MICROSECONDS = [0, -1, 1, 1_709_164_799_999_999, 1_709_208_000_000_000, -86_400_000_001, 500_000, 951_782_400_000_000]


@dataclass(frozen=True)
class ViewCase:
    """A case.

    Attributes
    ----------
    query
        The query.
    tables
        The tables ``a`` and ``b``.
    populates
        Whether the first epoch is a population.
    """

    query: Query
    tables: dict[str, ChangingTable]
    populates: bool

    @property
    def epochs(self) -> int:
        return len(self.tables["a"].epochs)


def draw(seed: int, number: int, engine: Engine = "local") -> ViewCase:
    """Return the case of a number, which is the same whenever the seed is."""
    chance = Random(f"views {seed} {number}")
    epochs = chance.randint(1, 3)
    tables, scopes = {}, {}
    for name in ("a", "b"):
        columns = random_columns(chance, name)
        rows = chance.randint(2, 6)
        table = Table(tuple(column_of(chance, each, data_type, rows) for each, data_type in columns.items()), rows)
        tables[name] = ChangingTable(table, random_epochs(chance, rows, epochs, 6))
        scopes[name] = scope_of(name, columns)
    return ViewCase(random_query(chance, scopes), tables, chance.random() < 0.3)


def random_columns(chance: Random, name: str) -> dict[str, pa.DataType]:
    """Return the columns of a table, whose names begin with the kinds of their types."""
    decimals = [pa.decimal128(*chance.choice(DECIMALS)) for _ in range(2)]
    integers = [pa.int64(), chance.choice([pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.uint8(), pa.uint32()])]
    found = {
        "int": integers,
        "float": [pa.float64()],
        "moderate": [pa.float64()],
        "decimal": decimals,
        "text": [pa.string(), pa.string()],
        "bool": [pa.bool_()],
        "date": [pa.date32()],
        "timestamp": [pa.timestamp("us")],
    }
    columns = {f"{kind}_{place}": each for kind, types in found.items() for place, each in enumerate(types)}
    return {"id": pa.int64()} | columns


def scope_of(name: str, columns: dict[str, pa.DataType]) -> Scope:
    """Return the columns by the kinds of their types."""
    found: Scope = {}
    for column in columns:
        if column != "id":
            kind = column.partition("_")[0]
            found.setdefault(kind, []).append(f"{name}.{column}")
    found["float"] += found["moderate"]
    return found


def column_of(chance: Random, name: str, data_type: pa.DataType, rows: int) -> Column:
    """Return a column: most of ordinary values, some with extremes."""
    if name == "id":
        return Column(name, data_type, tuple(range(1, rows + 1)))
    values = [value_of(chance, name, data_type) for _ in range(rows)]
    if chance.random() < 0.2 and (pat.is_integer(data_type) or pat.is_decimal(data_type) or name.startswith("float")):
        values[chance.randrange(rows)] = extreme(chance, data_type)
    nulls = chance.choice([0, 0.15, 0.4])
    return Column(name, data_type, tuple(None if chance.random() < nulls else value for value in values))


def value_of(chance: Random, name: str, data_type: pa.DataType) -> Any:
    if pat.is_integer(data_type):
        values = [0, 1, 2, 3, 7, 10, 15, 25, 100]
        return chance.choice(values if pat.is_unsigned_integer(data_type) else [*values, -1, -7, -15, -2])
    if pat.is_decimal(data_type):
        most = min(10**data_type.precision - 1, 10**9)
        unit = 10**data_type.scale
        steps = [0, 1, -1, 5, -5, 15, 25, -25, most, -most, unit, unit // 2, 5 * unit // 2, -unit]
        fitting = [each for each in steps if abs(each) < 10**data_type.precision]
        return Decimal(chance.choice(fitting)).scaleb(-data_type.scale)
    if pat.is_floating(data_type):
        return chance.choice(MODERATE if name.startswith("moderate") else FLOATS)
    if pat.is_boolean(data_type):
        return chance.random() < 0.5
    if pat.is_date(data_type):
        return chance.choice(DAYS)
    return chance.choice(MICROSECONDS if pat.is_timestamp(data_type) else TEXTS)


def smaller(case: ViewCase) -> Iterator[ViewCase]:
    """Yield cases that are a little smaller."""
    query = str(case.query)
    if "b" in case.tables and not re.search(r"\bb\b", query):
        yield replace(case, tables={"a": case.tables["a"]})
    for name, table in case.tables.items():
        columns = tuple(each for each in table.pool.columns if each.name == "id" or f"{name}.{each.name}" in query)
        if len(columns) < len(table.pool.columns):
            yield replace(case, tables=case.tables | {name: replace(table, pool=replace(table.pool, columns=columns))})
    yield from (replace(case, query=other) for other in narrower(case.query))
    if case.populates:
        yield replace(case, populates=False)
    yield from (replace(case, tables=tables) for tables in smaller_tables(case.tables))
    for name, table in case.tables.items():
        for place, column in enumerate(table.pool.columns):
            for row, value in enumerate(column.values):
                if value is not None and column.name != "id":
                    values = (*column.values[:row], None, *column.values[row + 1 :])
                    pool = table.pool.with_column(place, replace(column, values=values))
                    yield replace(case, tables=case.tables | {name: replace(table, pool=pool)})
