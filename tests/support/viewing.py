"""Tables that change in random epochs, and a view of them that is held to DuckDB's answer."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import juncture as jn

__all__ = ["SCHEMAS", "Forgetful", "Viewed", "assert_as_duckdb", "check", "database", "forgetful", "rounded"]

DECIMAL = pa.decimal128(6, 2)
SCHEMAS = {
    "a": pa.schema({"k": pa.int32(), "x": pa.int64(), "t": pa.string(), "d": DECIMAL, "f": pa.float64()}),
    "b": pa.schema({"k": pa.int32(), "y": pa.int64()}),
    "c": pa.schema({"k": pa.int32(), "z": pa.int16()}),
}
FLOATS = [0.0, -0.0, 0.1, 0.2, -0.3, 1e16, 1.0, math.nan, None]


def cell(data_type: pa.DataType, chance: random.Random) -> Any:
    if chance.random() < 0.12:
        return None
    if data_type == pa.string():
        return chance.choice(["a", "b", "Ab", ""])
    if data_type == DECIMAL:
        return Decimal(chance.randint(-300, 300)) / 100
    return chance.choice(FLOATS) if data_type == pa.float64() else chance.randint(0, 4)


def rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with floats as far as DuckDB, which adds them in some order, has them right."""
    found = []
    for value in row:
        if isinstance(value, float):
            value = "nan" if math.isnan(value) else f"{value + 0.0:.9g}"
        if isinstance(value, list):
            value = rounded(tuple(value))
        found.append(value.normalize() + 0 if isinstance(value, Decimal) else value)
    return tuple(found)


@dataclass
class Viewed:
    """A view of the tables `SCHEMAS`, of which random rows come, go, and are replaced.

    Attributes
    ----------
    query, seed
        What it is, and what decides on the changes.
    folder
        Where the state is, which is closed and opened again now and then; None for state in memory.
    static
        The sources that do not change.
    populated
        The most changes of a table in a first epoch that populates the view; none if it is an epoch like others.
    """

    query: str
    seed: int
    folder: Path | None
    static: tuple[str, ...] = ()
    epochs: int = 8
    populated: int = 0
    answer: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.query} {self.seed}")
        self.there: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}
        self.view = self.opened()

    def opened(self) -> jn.View:
        sources = {name: jn.Source(schema, static=name in self.static) for name, schema in SCHEMAS.items()}
        return jn.view(self.folder, self.query, sources=sources)

    def changed(self, name: str) -> tuple[pa.Table, list[tuple[Any, ...]]]:
        """Return random changes of a table, and the rows that there are then."""
        kept, weights = list(self.there[name]), []
        for _ in range(self.chance.randint(0, 8 if self.view.epoch or not self.populated else self.populated)):
            action = self.chance.random()
            if kept and action < 0.5:
                row = kept.pop(self.chance.randrange(len(kept)))
                weights.append((row, -1))
                if action < 0.25:
                    # An update, of the key or of something else.
                    place = self.chance.randrange(len(row))
                    new = cell(SCHEMAS[name].field(place).type, self.chance)
                    row = (*row[:place], new, *row[place + 1 :])
                    kept.append(row)
                    weights.append((row, 1))
            else:
                row = tuple(cell(each.type, self.chance) for each in SCHEMAS[name])
                copies = self.chance.choice([1, 1, 1, 2])
                kept += [row] * copies
                weights.append((row, copies))
        self.chance.shuffle(weights)
        table = tabled([row for row, _ in weights], SCHEMAS[name])
        return table.append_column("_weight", pa.array([each for _, each in weights], pa.int64())), kept

    def step(self) -> None:
        """Change the tables in one epoch, and hold the view to DuckDB's answer."""
        changes = {}
        for name in SCHEMAS:
            if name not in self.static or not self.view.epoch:
                changes[name], self.there[name] = self.changed(name)
        if self.chance.random() < 0.2 and self.view.epoch:
            self.fail(changes)
        populates = bool(self.populated) and not self.view.epoch
        take = self.view.populate if populates else self.view.apply
        self.receive(take(**changes, offset=self.view.epoch + 1), is_stored=not populates)

    def receive(self, given: list[pa.RecordBatch], *, is_stored: bool = True) -> None:
        """Add up the changes of an epoch, and compare the view with DuckDB's answer."""
        if self.folder is not None and self.chance.random() < 0.4:
            epoch, offset = self.view.epoch, self.view.offset
            self.view.close()
            self.view = self.opened()
            assert (self.view.epoch, self.view.offset) == (epoch, offset)
            assert not is_stored or str(self.view.last()) == str(given)
        for batch in given:
            for *row, weight in rows_of(batch):
                assert weight
                self.answer[rounded(tuple(row))] += weight
        assert all(count >= 0 for count in self.answer.values())
        expected = Counter(map(rounded, self.asked()))
        assert +self.answer == expected, f"missing {expected - self.answer}, surplus {+self.answer - expected}"
        result = [rounded(row) for batch in self.view.result().to_batches() for row in rows_of(batch)]
        assert Counter(result) == expected

    def fail(self, changes: dict[str, pa.Table]) -> None:
        """Have an epoch refused, which has to leave no trace."""
        row = tabled([(77, 77, "not there", Decimal("7.77"), 77.0)], SCHEMAS["a"])
        gone = row.append_column("_weight", pa.array([-1], pa.int64()))
        run = self.view._runtime.dataflow.run

        def failing(given: Any) -> Any:
            run(given)
            raise RuntimeError("on purpose")

        self.view._runtime.dataflow.run = failing
        try:
            self.view.apply(**changes)
        except RuntimeError:
            pass
        finally:
            self.view._runtime.dataflow.run = run
        if "a" in self.view._graph.inputs:
            try:
                self.view.apply(a=gone)
            except jn.DataError:
                return
            raise AssertionError("a row was deleted that is not there")

    def asked(self) -> list[tuple[Any, ...]]:
        """Return what DuckDB answers."""
        with database().cursor() as connection:
            for name, schema in SCHEMAS.items():
                connection.register(name, tabled(self.there[name], schema))
            return connection.execute(self.query).fetchall()


@cache
def database() -> duckdb.DuckDBPyConnection:
    """Return a database without tables, since a new one takes longer than most queries; cursors share no tables."""
    return duckdb.connect(config={"threads": 1})


def tabled(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)], schema=schema)


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def assert_as_duckdb(sql: str, tables: dict[str, pa.Table]) -> None:
    """Check that a view of some tables has the rows that DuckDB answers, or fails as DuckDB does."""
    view = jn.view(None, sql, sources={name: table.schema for name, table in tables.items()})
    with database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        try:
            expected = connection.execute(sql).fetchall()
        except duckdb.Error:
            with pytest.raises(jn.DataError):
                view.populate(**tables)
            return
    view.populate(**tables)
    rows = [row for batch in view.result().to_batches() for row in rows_of(batch)]
    assert Counter(map(exact, rows)) == Counter(map(exact, expected))


def exact(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row in which NaN equals NaN, and decimals of different scales do not equal each other."""
    return tuple(
        repr(value + 0.0) if isinstance(value, float) else str(value) if isinstance(value, Decimal) else value
        for value in row
    )


def forgetful(view: jn.View) -> jn.View:
    """Have a view remove keys that no row in memory has, however few they are."""
    for domain in view._graph.domains:
        domain.keys_least = -100
    return view


class Forgetful(Viewed):
    """A view that removes unused keys after each epoch."""

    def opened(self) -> jn.View:
        return forgetful(super().opened())


def check(viewed: Viewed) -> None:
    """Hold a view to DuckDB's answer after every epoch."""
    for _ in range(viewed.epochs):
        viewed.step()
    viewed.view.close()
