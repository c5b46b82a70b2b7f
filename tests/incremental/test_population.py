"""First rows that are taken part by part in memory: they are one run then, and the answer is that of the batch join."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError
from juncture.incremental import population
from juncture.incremental.join import ChangeJoin, ChangeSetup, store_in
from juncture.incremental.state.policy import MemoryPolicy
from juncture.planner.statistics import Resources

KIND = pa.dictionary(pa.int8(), pa.string())
"""Each part has a dictionary of its own."""
LEFT = pa.schema({"id": pa.int64(), "key": pa.string(), "on": pa.int64(), "is_new": pa.bool_(), "kind": KIND})
RIGHT = pa.schema({"key": pa.string(), "on": pa.int64(), "value": pa.float64()})
SPECS = {
    "equality": jn.Equi(on="key", how="full"),
    "equality of nulls, too": jn.Equi(on="key", how="left", nulls_equal=True),
    "range": jn.Range(left_on="on", right_on="on", by="key", lower=None, upper=0, how="anti"),
    "as-of": jn.Asof(left_on="on", right_on="on", by="key", how="left"),
    "without a key": jn.Range(left_on="on", right_on="on", lower=-3, upper=0),
}


@pytest.fixture(autouse=True)
def of_small_parts(monkeypatch):
    monkeypatch.setattr(population, "_PART_ROWS", 8)


def tables() -> tuple[pa.Table, pa.Table]:
    """Return rows of which some are there twice, and some have no key or no value; rows for as-of have no ties."""
    chance = random.Random(5)
    keys = [None, *(f"key {number}" for number in range(40))]
    left = [
        {"id": number, "key": chance.choice(keys), "on": chance.randrange(50), "is_new": chance.random() < 0.5}
        | {"kind": f"kind {number // 150} {number % 7}"}
        for number in range(300)
    ]
    right = [
        {"key": key, "on": on, "value": chance.choice([None, 0.5, 2.0])}
        for key in keys
        for on in chance.sample(range(50), 4)
    ]
    # Two chunks have two dictionaries.
    chunks = [pa.Table.from_pylist(rows, LEFT) for rows in (left[:150], left[150:] + left[:20])]
    return pa.concat_tables(chunks), pa.Table.from_pylist(right, RIGHT)


def rows_of(batches: Any) -> Counter:
    found: Counter = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            weight = row.pop("_weight", 1)
            found[tuple(row.values())] += weight
    return found


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("is_kept", [False, True])
def test_parts_give_the_batch_answer(tmp_path, name, is_kept):
    spec, (left, right) = SPECS[name], tables()
    state = tmp_path / "state" if is_kept else None
    join = jn.changes(LEFT, RIGHT, spec, state=state)
    given = join.populate(left=left.to_batches(max_chunksize=90), right=right)
    wanted = rows_of(jn.plan(left, right, spec).execute().to_batches())
    assert rows_of(given) == wanted
    assert all(len(held.memory) == 1 for held in [each.arrangement for each in join._operator.sides.values()])
    if is_kept:
        join.close()
        join = jn.changes(LEFT, RIGHT, spec, state=state)
    assert rows_of(join.result().to_batches()) == wanted
    gone = left.slice(0, 100)
    answer = rows_of([*given, *join.apply(left=gone.append_column("_weight", pa.array([-1] * 100)))])
    without = rows_of(jn.plan(left.slice(100), right, spec).execute().to_batches())
    assert {row: count for row, count in answer.items() if count} == without
    join.close()


def test_what_fails_in_a_later_part_leaves_nothing(tmp_path):
    left, right = tables()
    with jn.changes(LEFT, RIGHT, SPECS["equality"], state=tmp_path / "state") as join:
        row = {"id": -1, "key": "none", "on": 1, "is_new": True, "kind": "none", "_weight": -1}
        missing = pa.Table.from_pylist([row], LEFT.append(pa.field("_weight", pa.int64())))
        with pytest.raises(DataError, match="delete a row that does not exist"):
            join.populate(left=[left, missing], right=right)
        assert (join.left.rows, join.right.rows, join.epoch) == (0, 0, 0)
        given = join.populate(left=left, right=right)
        assert rows_of(given) == rows_of(jn.plan(left, right, SPECS["equality"]).execute().to_batches())


@pytest.mark.parametrize("name", SPECS)
def test_parts_that_have_a_dictionary_each(tmp_path, name):
    """With little memory, parts are joined one after the other."""
    left, right = tables()
    setup = ChangeSetup(SPECS[name], LEFT, RIGHT)
    store = store_in(tmp_path / "state", setup, MemoryPolicy.of(1 << 15))
    with ChangeJoin(setup, Resources(cores=1, memory_bytes=1 << 15), store) as join:
        given = rows_of(join.populate(left=left, right=right))
    assert given == rows_of(jn.plan(left, right, SPECS[name]).execute().to_batches())
