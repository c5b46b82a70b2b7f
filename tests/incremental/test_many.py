"""After every epoch, the changes of a join of several tables make its result the batch join of the tables."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from many.strategies import random_case
from support.tables import canonical_rows


def rows_in(tables: list[pa.RecordBatch]) -> Counter[Any]:
    """Return how often each row is in changes."""
    counts: Counter[Any] = Counter()
    for batch in tables:
        names = batch.schema.names[:-1]
        rows = canonical_rows(pa.Table.from_batches([batch.select(names)]))
        for row, weight in zip(rows, batch.column("_weight").to_pylist(), strict=True):
            counts[row] += weight
    return Counter({row: count for row, count in counts.items() if count})


def changed(pool: pa.Table, there: list[int], chance: random.Random) -> pa.Table | None:
    """Return some rows of a pool that come and go, of which those that are there are recorded."""
    gone = chance.sample(there, chance.randint(0, min(3, len(there))))
    absent = [row for row in range(pool.num_rows) if row not in there]
    new = chance.sample(absent, chance.randint(0, min(5, len(absent))))
    there[:] = [row for row in there if row not in gone] + new
    if not gone and not new:
        return None
    rows = pool.take(pa.array([*new, *gone], pa.int64()))
    return rows.append_column("_weight", pa.array([1] * len(new) + [-1] * len(gone), pa.int64()))


def check(seed: int, folder: Path | None) -> None:
    """Apply random epochs to the tables of a random case, and compare the result after each."""
    spine, rights = random_case(seed, in_process=False)
    chance = random.Random(seed)
    pools = {"spine": spine} | {name: right.table for name, right in rights.items()}
    schemas = {name: replace(right, table=right.table.schema) for name, right in rights.items()}
    there: dict[str, list[int]] = {name: [] for name in pools}
    join = jn.changes_many(spine.schema, schemas, state=folder)
    found: Counter[Any] = Counter()
    for epoch in range(4):
        changes = {name: changed(pool, there[name], chance) for name, pool in pools.items()}
        found.update(rows_in((join.apply if epoch else join.populate)(**changes, offset=epoch)))
        now = {name: pool.take(pa.array(there[name], pa.int64())) for name, pool in pools.items()}
        expected = jn.join_many(now["spine"], {name: replace(each, table=now[name]) for name, each in rights.items()})
        assert join.answer_schema.equals(expected.schema, check_metadata=True)
        assert Counter({row: count for row, count in found.items() if count}) == Counter(canonical_rows(expected))
        if folder is not None and chance.random() < 0.4:
            join.close()
            join = jn.changes_many(spine.schema, schemas, state=folder)
            assert join.offset == epoch
    assert Counter(canonical_rows(join.result())) == Counter(canonical_rows(expected))
    join.close()


@settings(max_examples=max(settings.default.max_examples // 2, 1))
@given(seed=st.integers(0, 2**32))
def test_equals_the_batch_join(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(seed, tmp_path_factory.mktemp("many") / "state" if seed % 3 == 0 else None)


USERS = pa.schema({"user": pa.string(), "since": pa.int64()})


def test_several_matches() -> None:
    tables = {"users": jn.Right(USERS, jn.Equi(on="user", how="left"))}
    spine = pa.schema({"user": pa.string()})
    join = jn.changes_many(spine, tables)
    one, both = pa.table({"user": ["a"], "since": [1]}), pa.table({"user": ["a", "a"], "since": [1, 2]})
    join.populate(spine=pa.table({"user": ["a"]}), users=one)
    with pytest.raises(jn.DataError, match="In table 'users': Several rows match"):
        join.apply(users=both)
    assert join.result().to_pylist() == [{"user": "a", "since": 1}]
    greatest = jn.changes_many(spine, {"users": replace(tables["users"], duplicates="greatest")})
    greatest.populate(spine=pa.table({"user": ["a"]}), users=both)
    assert greatest.result().to_pylist() == [{"user": "a", "since": 2}]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"spine": jn.Right(USERS, jn.Equi(on="user"))}, "reserved"),
        ({"a": jn.Right(pa.table({"user": ["a"]}), jn.Equi(on="user"))}, r"tables\['a'\]"),
        ({"a": jn.Right(USERS, jn.Equi(on="user", agg={"*": "count"}), columns=[])}, "In table 'a': columns"),
    ],
)
def test_wrong_tables(tables: dict[str, jn.Right], message: str) -> None:
    with pytest.raises(jn.SpecError, match=message):
        jn.changes_many(USERS, tables)
    join = jn.changes_many(USERS, {"a": jn.Right(USERS, jn.Equi(on="user", how="left"), prefix="a_")})
    with pytest.raises(jn.SpecError, match="no table of the join"):
        join.apply(b=None)
