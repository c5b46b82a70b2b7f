"""`juncture.join` as users call it: inputs and outputs of any kind, plans, budgets, and mistakes."""

from __future__ import annotations

import random
import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from support.engines import LOCAL_EQUI
from support.inputs import FORMS, pass_as
from support.tables import difference

LEFT = pa.table({"id": [3, 1, 2, 1], "name": ["c", "a", "b", "a2"]})
RIGHT = pa.table({"id": [1, 3, 1], "price": [10.0, 5.0, 7.5]})
JOINED = {"id": [3, 1, 1, 1, 1], "name": ["c", "a", "a", "a2", "a2"], "price": [5.0, 10.0, 7.5, 10.0, 7.5]}
# Each example joins files and streams.
FEW = settings(max_examples=settings.default.max_examples // 2)


def test_the_type_of_the_left_table_comes_back():
    assert jn.join(LEFT, RIGHT, on="id").to_pydict() == JOINED
    assert jn.join(LEFT.to_pandas(), RIGHT, on="id").equals(pd.DataFrame(JOINED))
    assert jn.join(pl.from_arrow(LEFT), pl.from_arrow(RIGHT), on="id").equals(pl.DataFrame(JOINED))


@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
@FEW
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_form_of_input(algorithm, tmp_path_factory, data, seed):
    chance = random.Random(seed)
    example = data.draw(near_examples("equi"))
    folder = tmp_path_factory.mktemp("inputs")
    left, right = (
        pass_as(data.draw(st.sampled_from(FORMS)), table, folder / side, chance)
        for side, table in (("left", example.left), ("right", example.right))
    )
    answer = jn.plan(left, right, example.spec, algorithm=algorithm).execute()
    assert difference(answer, example.defined_rows(), ordered=True) is None


def test_a_plan_says_what_it_weighed():
    plan = jn.plan(LEFT, RIGHT, jn.Equi(on="id", where="r.price > 6", nulls_equal=True))
    text = plan.explain()
    assert text.startswith("Equality join in-process")
    assert "each left row gets the right rows of equal id, nulls included for which r.price > 6" in text
    for algorithm in LOCAL_EQUI:
        assert f" {algorithm} " in text


def test_what_does_not_fit_is_joined_on_disk():
    stats = jn.Stats(left=jn.SideStats(rows=10**9, row_bytes=20), right=jn.SideStats(rows=10**9, row_bytes=20))
    plan = jn.plan(LEFT, RIGHT.to_reader(), jn.Equi(on="id"), memory="2GB", stats=stats)
    assert plan.algorithm in ("grace", "external_sort_merge")
    assert "the right rows take about 68.0 GB, but only 1.2 GB is available." in plan.explain()
    assert plan.execute().to_pydict() == JOINED
    for algorithm in ("hash", "parallel_hash", "sort_merge"):
        refused = rf"algorithm='{algorithm}' cannot run this join: the right rows take about 68.*algorithm='auto'"
        with pytest.raises(jn.PlanError, match=refused):
            jn.plan(LEFT, RIGHT.to_reader(), jn.Equi(on="id"), memory="2GB", stats=stats, algorithm=algorithm)


def test_a_stream_that_nobody_has_counted_is_not_held():
    stream = RIGHT.to_reader()
    plan = jn.plan(LEFT, stream, jn.Equi(on="id"))
    assert plan.algorithm == "grace"
    assert plan.execute().to_pydict() == JOINED


def test_batches_come_as_they_are_asked_for():
    table = pa.table({"k": [0] * 40_000})
    batches = jn.plan(table, table, jn.Equi(on="k"), algorithm="hash").batches()
    assert next(batches).num_rows < 10**6
    batches.close()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"on": "id", "memory": "lots"}, jn.SpecError, "memory='lots' is not a positive size. Expected a number of"),
        ({"on": "id", "memory": 0}, jn.SpecError, "memory=0 is not a positive size."),
        (
            {"on": "id", "memory": "1MB"},
            jn.PlanError,
            "memory= leaves 1.0 MB for the join",
        ),
        (
            {"on": "id", "algorithm": "broadcast"},
            jn.PlanError,
            "algorithm='broadcast' runs on Spark, but",
        ),
        ({"on": "id", "algorithm": "window"}, jn.SpecError, "algorithm='window' is unknown. Expected one of"),
        ({"on": "id", "strategy": "hash"}, jn.SpecError, "join() has no argument strategy='hash'."),
        ({"on": "id", "hwo": "left"}, jn.SpecError, "join() has no argument hwo='left'. Did you mean 'how'?"),
        ({}, jn.SpecError, "an equality join needs a key"),
        ({"on": "nmae"}, jn.SchemaError, "Did you mean 'name'?"),
    ],
)
def test_mistakes(arguments, error, said):
    with pytest.raises(error) as raised:
        jn.join(LEFT, RIGHT, **arguments)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "spec",
    [
        jn.Asof(on="id"),
        jn.Range(on="id", lower=0),
        jn.Overlap(left_interval=("id", "id"), right_interval=("id", "id"), closed="both"),
        jn.Where("l.id = r.id"),
        jn.Equi(on="id"),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_every_join_keeps_to_a_budget(spec):
    with pytest.raises(jn.PlanError, match=r"the minimum is 64\.0 MB\. Pass memory='64MB' or more\."):
        jn.plan(LEFT, RIGHT, spec, memory="63MB")
    plan = jn.plan(LEFT, RIGHT, spec, memory="64MB")
    assert re.search(r"budget     38\.4 MB available: right rows of about .* fit$", plan.explain(), re.MULTILINE)
    assert plan.execute().num_rows > 0


@pytest.mark.in_turn
def test_the_budget_is_for_joins_in_this_process(spark):
    frame = spark.createDataFrame([(1, "a")], "id long, name string")
    with pytest.raises(jn.PlanError, match="memory='2GB' applies to in-process joins, but this join runs on Spark"):
        jn.join(frame, frame, on="id", memory="2GB")
