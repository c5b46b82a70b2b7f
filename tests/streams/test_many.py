"""Streams joined to a spine give what the batch join of all rows that came in time gives."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from many.strategies import RIGHT, SPINE
from support.streams import arrange, in_time, picked
from support.tables import difference

BOUNDED = [
    jn.Asof(on="ts"),
    jn.Asof(on="ts", by="key", tolerance=3, how="inner"),
    jn.Asof(on="ts", by="key", direction="nearest", tolerance=4),
    jn.Range(on="ts", by="key", lower=-5, upper=1, agg={"*": "count", "value": ["sum", "list"]}, how="inner"),
    jn.Range(on="ts", windows={"near": (-2, 0), "far": (-9, -4)}, agg={"value": "max"}),
    jn.Range(on="ts", windows={"near": (-2, 0), "far": (-9, -4)}, by="key", agg={"value": "max"}, how="inner"),
    jn.Equi(on="key", how="left", where="l.ts - r.ts BETWEEN -1 AND 4"),
    jn.Equi(on="key", how="inner", where="l.ts - r.ts BETWEEN -1 AND 4"),
]


def rows_of(chance: random.Random, schema: pa.Schema, rows: int) -> pa.Table:
    """Return random rows with times, and some nulls beside them."""
    columns = {}
    for each in schema:
        if pa.types.is_string(each.type):
            columns[each.name] = [chance.choice(["a", "b", "c", None]) for _ in range(rows)]
        else:
            columns[each.name] = [chance.randint(0, 20) for _ in range(rows)]
    columns[schema.names[0]] = list(range(rows)) if schema is SPINE else columns[schema.names[0]]
    return pa.table(columns, schema=schema)


class Streams:
    """A spine and tables that are pushed in random batches."""

    def __init__(
        self, spine: pa.Table, rights: dict[str, jn.Right], chance: random.Random, folder: Path | None
    ) -> None:
        self.rights, self.chance, self.folder = rights, chance, folder
        self.tables = {"spine": spine} | {name: right.table for name, right in rights.items()}
        self.orders = {name: jn.Order("ts", delay=chance.choice([0, 3])) for name in self.tables}
        for name, table in self.tables.items():
            self.tables[name] = arrange(table, "left", self.orders[name], chance, disorder=chance.choice([0, 4]))
        streams = {
            name: replace(each, table=each.table.schema, order=self.orders[name]) for name, each in rights.items()
        }
        self.static = {name for name in rights if chance.random() < 0.2}
        for name in self.static:
            streams[name] = replace(rights[name], table=self.tables[name])
        self.join = jn.stream_many(spine.schema, streams, order=self.orders["spine"], late="collect")
        self.answer: list[pa.RecordBatch] = []

    def run(self) -> pa.Table:
        """Push all rows, and return the result."""
        pushed = dict.fromkeys(self.tables.keys() - self.static, 0)
        while names := sorted(name for name, rows in pushed.items() if rows < self.tables[name].num_rows):
            pieces = {}
            for name in self.chance.sample(names, self.chance.randint(1, len(names))):
                pieces[name] = self.tables[name].slice(pushed[name], self.chance.randint(1, 6))
                pushed[name] += pieces[name].num_rows
            self.answer += self.join.push(**pieces)
            if self.folder is not None and self.chance.random() < 0.3:
                self.join.save(self.folder / "state")
                expected = self.join if self.chance.random() < 0.5 else None
                self.join = jn.ManyStreamJoin.restore(self.folder / "state", expected=expected)
        self.answer += self.join.close()
        return pa.Table.from_batches(self.answer, self.join.schema)

    def in_time(self, name: str) -> pa.Table:
        """Return the rows of a table that come in time, and compare the late ones with those collected."""
        table = self.tables[name]
        if name in self.static:
            return table
        mask = in_time(table, "left", [self.orders[name]])
        late = picked(table, [not each for each in mask])
        assert difference(self.join.late(name), late, ordered=True) is None
        state = self.join.state.spine if name == "spine" else self.join.state.tables[name]
        assert (state.rows, state.late_rows) == (0, late.num_rows)
        return picked(table, mask)

    def check(self) -> None:
        """Compare the result with the batch join of the rows that came in time."""
        answer = self.run()
        spine = self.in_time("spine")
        expected = jn.join_many(
            spine, {name: replace(each, table=self.in_time(name)) for name, each in self.rights.items()}
        )
        assert answer.schema.equals(expected.schema, check_metadata=True)
        problem = difference(answer, expected, ordered=False)
        assert problem is None, problem


def run_case(seed: int, specs: list[Any], folder: Path | None) -> None:
    chance = random.Random(seed)
    rights = {}
    for number, spec in enumerate(specs):
        prefix = f"t{number}_"
        duplicates = "greatest" if spec.is_lookup else "error"
        table = rows_of(chance, RIGHT, chance.choice([0, 5, 40]))
        rights[f"t{number}"] = jn.Right(table, spec, prefix=prefix, duplicates=duplicates)
    Streams(rows_of(chance, SPINE, chance.choice([0, 5, 40])), rights, chance, folder).check()


@settings(max_examples=3 * settings.default.max_examples)
@given(seed=st.integers(0, 2**32), specs=st.lists(st.sampled_from(BOUNDED), min_size=1, max_size=4))
def test_equals_the_batch_join(seed: int, specs: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    run_case(seed, specs, tmp_path_factory.mktemp("many") if seed % 3 == 0 else None)


EVENTS = pa.schema({"ts": pa.int64(), "key": pa.string()})
WINDOW = jn.Equi(on="key", how="left", where="r.ts BETWEEN l.ts - 5 AND l.ts")


def events(*rows: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"ts": ts, "key": key} for ts, key in rows], EVENTS)


def lookup(**changed: Any) -> dict[str, jn.Right]:
    order = jn.Order("ts")
    return {"seen": jn.Right(EVENTS, WINDOW, columns={"ts": "seen"}, order=order, **changed)}


def test_several_matches_of_a_lookup_end_the_join() -> None:
    join = jn.stream_many(EVENTS, lookup(), order=jn.Order("ts"))
    assert join.push(spine=events((5, "a")), seen=events((2, "a"), (3, "a"))) == []
    with pytest.raises(jn.DataError, match=r'In table .seen.: Several rows match the row of the spine with key="a"'):
        join.push(seen=events((6, "b")))
    with pytest.raises(jn.PlanError, match="has ended"):
        join.push(spine=events((7, "a")))


def test_a_row_that_cannot_be_placed_is_refused_by_all_tables() -> None:
    tables = {**lookup(), "last": jn.Right(EVENTS, jn.Asof(on="ts"), prefix="last_", order=jn.Order("ts"))}
    join = jn.stream_many(EVENTS, tables, order=jn.Order("ts"), late="error")
    join.push(spine=events((5, "a")))
    with pytest.raises(jn.DataError, match="is late"):
        join.push(spine=events((6, "b"), (4, "a")))
    answer = join.push(spine=events((5, "b")), seen=events((9, "a")), last=events((2, "x"), (9, "x")))
    answer += join.close()
    rows = [row for batch in answer for row in batch.to_pylist()]
    assert rows == [
        {"ts": 5, "key": "a", "seen": None, "last_key": "x"},
        {"ts": 5, "key": "b", "seen": None, "last_key": "x"},
    ]


@pytest.mark.parametrize(
    ("tables", "error", "message"),
    [
        ({"spine": jn.Right(EVENTS, WINDOW)}, jn.SpecError, "reserved"),
        ({"a": jn.Right(EVENTS, WINDOW, order="ts")}, jn.SpecError, r"tables\['a'\].order='ts'"),
        ({"a": jn.Right(EVENTS, jn.Equi(on="key"), order=jn.Order("ts"))}, jn.PlanError, "In table 'a': "),
        ({"a": jn.Right([1], WINDOW)}, jn.PlanError, r"tables\['a'\] is a list"),
    ],
)
def test_wrong_tables(tables: dict[str, jn.Right], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        jn.stream_many(EVENTS, tables, order=jn.Order("ts"))


def test_wrong_use() -> None:
    users = pa.table({"key": ["a"], "since": [1]})
    tables = {**lookup(), "users": jn.Right(users, jn.Equi(on="key", how="left"))}
    join = jn.stream_many(EVENTS, tables, order=jn.Order("ts"))
    with pytest.raises(jn.PlanError, match="'users' was passed with its rows"):
        join.push(users=users)
    with pytest.raises(jn.SpecError, match=r"advance\(other=…\) is no table"):
        join.advance(other=3)
    assert "users, which has no further rows:" in join.explain()
    assert join.push(spine=events((5, "a"))) == []
    assert [batch.to_pylist() for batch in join.advance(spine=6, seen=6)] == [
        [{"ts": 5, "key": "a", "seen": None, "since": 1}]
    ]
    assert join.close() == []
    with pytest.raises(jn.PlanError, match="is closed"):
        join.close()
