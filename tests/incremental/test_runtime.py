"""A query of several answers: they share operators, and an epoch has all of their changes or none."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pyarrow as pa
import pytest

from juncture.errors import DataError, StateError
from juncture.incremental.changes.change_batch import ChangeBatch
from juncture.incremental.operators.join import JoinOperator
from juncture.incremental.plan.physical import operators_of
from juncture.incremental.plan.prune import pruned
from juncture.incremental.plan.push import pushed
from juncture.incremental.runtime import Query, Runtime
from juncture.incremental.sql.reader import read_query
from juncture.incremental.state.policy import MemoryPolicy, store_opener
from support.state import SMALL_STATE

SCHEMAS = {
    "people": pa.schema({"id": pa.int64(), "name": pa.string()}),
    "sales": pa.schema({"id": pa.int64(), "price": pa.int64()}),
}
JOINED = "SELECT p.id, name, price FROM people p JOIN sales s ON p.id = s.id"
ANSWERS = {
    "rows": JOINED,
    "sums": f"SELECT name, sum(price) AS total FROM ({JOINED}) GROUP BY name",
    "ratios": "SELECT id, 12 // price AS ratio FROM sales",
}


@pytest.fixture(params=["in memory", "in a folder", "on disk"])
def opened(request, tmp_path):
    policies = {"in memory": None, "in a folder": MemoryPolicy.of(1 << 26), "on disk": SMALL_STATE}
    policy = policies[request.param]
    plans = pruned({name: pushed(read_query(sql, SCHEMAS).node, []) for name, sql in ANSWERS.items()})
    query = Query(partial(operators_of, plans, []), {name: f"changes of {name}" for name in SCHEMAS}, "query", "it")
    store = None if policy is None else store_opener(tmp_path / "state", "query", policy, {})
    return partial(Runtime, query, written, store)


def written(_, flow):
    return [weighted(*each) for each in flow]


def weighted(batch, weights):
    return batch.append_column("weight", pa.array(weights))


def changed(name, *rows):
    """Return rows whose last value is their weight."""
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMAS[name], strict=False)]
    schema = pa.schema([(str(place), each.type) for place, each in enumerate(SCHEMAS[name])])
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return {name: [ChangeBatch(rows, pa.array(columns[-1]).to_numpy())]}


def counted(batches):
    return Counter(
        {tuple(row[:-1]): row[-1] for each in batches for row in zip(*each.to_pydict().values(), strict=True)}
    )


def test_each_answer_has_its_changes(opened):
    runtime = opened()
    first = changed("people", (1, "Adam", 1), (2, "Eve", 1)) | changed("sales", (1, 3, 1), (1, 4, 1))
    answers = runtime.populate(first, {"at": 1})
    assert {name: counted(each) for name, each in answers.items()} == {
        "rows": {(1, "Adam", 3): 1, (1, "Adam", 4): 1},
        "sums": {("Adam", 7): 1},
        "ratios": {(1, 4): 1, (1, 3): 1},
    }
    assert runtime.last() is None
    assert sum(isinstance(each, JoinOperator) for each in runtime.dataflow.graph.operators) == 1
    expected = {
        "rows": {(2, "Eve", 6): 1},
        "sums": {("Eve", 6): 1},
        "ratios": {(2, 2): 1},
    }
    answers = runtime.apply(changed("sales", (2, 6, 1)), None)
    assert {name: counted(each) for name, each in answers.items()} == expected
    assert {name: counted(each) for name, each in runtime.last().items()} == expected
    if runtime.store is not None:
        runtime.close()
        runtime = opened()
        assert {name: counted(each) for name, each in runtime.last().items()} == expected
    assert (runtime.position.epoch, runtime.position.offset) == (2, {"at": 1})
    assert counted(weighted(*each) for each in runtime.living("sums")) == {("Adam", 7): 1, ("Eve", 6): 1}
    runtime.close()


def test_an_epoch_that_one_answer_refuses(opened):
    runtime = opened()
    first = changed("people", (1, "Adam", 1)) | changed("sales", (1, 3, 1))
    runtime.populate(first, None)
    with pytest.raises(DataError, match=r"changes of sales delete a row .*'price': 9"):
        runtime.apply(changed("people", (2, "Eve", 1)) | changed("sales", (1, 9, -1)), None)

    def fails(name, _flow):
        raise StateError(f"{name} is full", name="JN-STATE-WRITE")

    write, runtime._write = runtime._write, fails
    with pytest.raises(StateError, match="rows is full"):
        runtime.apply(changed("sales", (1, 5, 1)), None)
    runtime._write = write
    answers = runtime.apply(changed("sales", (1, 4, 1), (1, 3, -1)), None)
    assert {name: counted(each) for name, each in answers.items()} == {
        "rows": {(1, "Adam", 4): 1, (1, "Adam", 3): -1},
        "sums": {("Adam", 4): 1, ("Adam", 3): -1},
        "ratios": {(1, 3): 1, (1, 4): -1},
    }
    assert runtime.position.epoch == 2
    runtime.close()
