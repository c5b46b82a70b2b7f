"""Joins that are validated once and run on many tables."""

from __future__ import annotations

from itertools import permutations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import juncture as jn
from strategies import examples
from support.tables import difference

LEFT, RIGHT = pa.table({"ts": [5, 3, 9], "k": [1, 2, 1]}), pa.table({"ts": [2, 4], "k": [2, 1], "v": [0.5, 1.5]})
SPECS = [
    jn.Asof(on="ts", by="k"),
    jn.Asof(on="ts", direction="nearest", how="full"),
    jn.Range(on="ts", lower=-3, upper=0, agg={"v": "mean"}),
    jn.Overlap(left_interval=("k", "ts"), right_interval=("k", "ts"), how="anti"),
    jn.Where("l.ts > r.ts AND l.k = r.k"),
    jn.Equi(on="k", how="left"),
]


@given(example=examples())
def test_a_prepared_join_is_the_join(example):
    prepared = jn.prepare(example.left.schema, example.right.schema, example.spec)
    planned = jn.plan(example.left, example.right, example.spec)
    for some in (example.left, example.left.slice(0, 0), example.left):
        assert prepared(some, example.right).schema == planned.execute().schema
    assert difference(prepared(example.left, example.right), planned.execute(), ordered=True) is None


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_a_prepared_join_returns_the_type_of_the_left_table(spec):
    prepared, expected = jn.prepare(LEFT.schema, RIGHT.schema, spec), jn.plan(LEFT, RIGHT, spec).execute()
    assert prepared(LEFT, RIGHT).equals(expected)
    assert prepared(LEFT.to_batches()[0], pl.DataFrame(RIGHT)).equals(expected)
    assert isinstance(prepared(pl.DataFrame(LEFT), RIGHT), pl.DataFrame)
    frame = prepared(LEFT.to_pandas(), RIGHT)
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == expected.num_rows


def test_joins_that_differ_little_are_not_confused():
    specs = [jn.Range(on="ts", lower=-3, agg=dict(pairs)) for pairs in permutations({"v": "sum", "k": "max"}.items())]
    assert specs[0] == specs[1]
    outputs = [jn.plan(LEFT, RIGHT, spec).execute().column_names for spec in specs]
    assert outputs == [["ts", "k", "v_sum", "k_max"], ["ts", "k", "k_max", "v_sum"]]
    for table in (LEFT, LEFT.replace_schema_metadata({"source": "x"}), LEFT):
        assert jn.join_asof(table, RIGHT, on="ts").schema.metadata == table.schema.metadata
    field = LEFT.schema.field("k")
    for column in (field, field.with_nullable(False), field.with_metadata({"unit": "m"}), field):
        table = LEFT.cast(pa.schema([LEFT.schema.field("ts"), column]))
        assert jn.join_asof(table, RIGHT, on="ts").schema.field("k").equals(column, check_metadata=True)


def test_an_algorithm_can_be_named():
    prepared = jn.prepare(LEFT.schema, RIGHT.schema, jn.Equi(on="k"), algorithm="sort_merge", memory="1GB")
    assert prepared(LEFT, RIGHT).num_rows == 3
    with pytest.raises(jn.SpecError, match="algorithm='merge'"):
        jn.prepare(LEFT.schema, RIGHT.schema, jn.Equi(on="k"), algorithm="merge")


def test_rows_of_tables_without_columns_count():
    prepared = jn.prepare(pa.schema([]), RIGHT.schema, jn.Where("r.v > 1", allow_cross=True))
    assert prepared(LEFT.select([]), RIGHT).num_rows == 3


@pytest.mark.parametrize(
    ("left", "right", "side"),
    [
        (LEFT.select(["ts"]), RIGHT, "left"),
        (LEFT.select(["k", "ts"]), RIGHT, "left"),
        (LEFT, RIGHT.set_column(2, "v", pa.array([1, 2])), "right"),
    ],
)
def test_tables_of_other_schemas_are_refused(left, right, side):
    prepared = jn.prepare(LEFT.schema, RIGHT.schema, jn.Asof(on="ts"))
    with pytest.raises(jn.SchemaError, match=f"The {side} table has the columns .* but the join was prepared for"):
        prepared(left, right)


def test_bad_arguments_are_refused_before_any_table():
    with pytest.raises(jn.SchemaError, match="time"):
        jn.prepare(LEFT.schema, RIGHT.schema, jn.Asof(on="time"))
    with pytest.raises(jn.SpecError, match="is not a schema"):
        jn.prepare(LEFT, RIGHT.schema, jn.Asof(on="ts"))
    with pytest.raises(jn.SpecError, match="is not a join"):
        jn.prepare(LEFT.schema, RIGHT.schema, "ts")
    with pytest.raises(jn.SpecError, match="maintain_order"):
        jn.prepare(LEFT.schema, RIGHT.schema, jn.Asof(on="ts"), maintain_order="right")


@pytest.mark.parametrize(
    ("as_lists", "spec"),
    [
        (jn.Range(on=["ts"], lower=0), jn.Range(on="ts", lower=0)),
        (jn.Range(left_on=["ts"], right_on=["ts"], by=["k"], lower=0), jn.Range(on="ts", by="k", lower=0)),
        (jn.Asof(on=["ts"], by=["k"], order_by=["x"]), jn.Asof(on="ts", by="k", order_by="x")),
        (jn.Equi(on=["k"]), jn.Equi(on="k")),
        (
            jn.Overlap(left_interval=["ts", "x"], right_interval=["ts", "x"]),
            jn.Overlap(left_interval=("ts", "x"), right_interval=("ts", "x")),
        ),
    ],
)
def test_names_may_be_lists(as_lists, spec):
    table = pa.table({"ts": [1, 5], "k": [1, 2], "x": [3, 6]})
    assert jn.plan(table, table, as_lists).execute() == jn.plan(table, table, spec).execute()
