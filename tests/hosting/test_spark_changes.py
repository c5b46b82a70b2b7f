"""Joins of streaming DataFrames of changes: after each micro-batch, what has been given is the join of the tables."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import juncture as jn
from support.change_streams import LEFT, RIGHT, epochs, said, summed
from support.streaming import read_stream, run, write_files
from support.tables import canonical_rows

CASES = {
    "equi": (jn.Equi(on="k", where="l.on < r.on"), "weight", "weight"),
    "asof": (jn.Asof(on="on", by="k", direction="nearest", order_by="m", how="full"), "change_type", "debezium"),
    "range, aggregated": (
        jn.Range(on="on", by="k", lower=-2, upper="far", agg={"end": "sum"}),
        "debezium",
        "change_type",
    ),
}
"""A join, how its changes are said, and how those of the left side are."""


@pytest.mark.one_in(3)
@pytest.mark.in_turn
@pytest.mark.parametrize("case", CASES)
def test_two_tables_that_change(hosting, tmp_path, case):
    (spec, form, left_form), chance = CASES[case], random.Random(case)
    changes, tables = {}, {}
    for side, schema in (("left", LEFT), ("right", RIGHT)):
        changes[side], tables[side] = epochs(schema, chance, 3)
    changes["left"] = [said(each, left_form) for each in changes["left"]]
    # What is left for later comes to a query that is started again.
    for some in (slice(0, 2), slice(2, 3)):
        for side, parts in changes.items():
            write_files(parts[some], tmp_path / side)
        plan = jn.plan_changes(*(read_stream(hosting, tmp_path / side) for side in changes), spec, output=form)
        assert plan.algorithm == "hosted"
        ran = run(plan.execute(), tmp_path)
        wanted = jn.plan(tables["left"][some.stop - 1], tables["right"][some.stop - 1], spec).execute()
        assert summed(ran.answer) == Counter(canonical_rows(wanted))
    assert wanted.num_rows > 0


@pytest.mark.in_turn
def test_a_table_that_does_not_change(hosting, tmp_path):
    chance = random.Random(1)
    changes, tables = epochs(LEFT, chance, 2)
    dimension = pa.Table.from_pylist(
        [{"k": 0, "on": 3, "end": 4, "m": "a"}, {"k": 2, "on": 5, "end": 9, "m": "b"}], RIGHT
    )
    write_files([said(each, "change_type") for each in changes], tmp_path / "left")
    write_files([dimension], tmp_path / "right")
    spec = jn.Asof(on="on", by="k")
    stream, path = read_stream(hosting, tmp_path / "left"), str(tmp_path / "right")
    plan = jn.plan_changes(stream, hosting.read.parquet(path), spec)
    assert (plan.algorithm, plan.execute().columns) == ("broadcast", [*plan.execute().columns[:-1], "_weight"])
    ran = run(jn.changes(stream, path, spec), tmp_path)
    assert summed(ran.answer) == Counter(canonical_rows(jn.plan(tables[-1], dimension, spec).execute()))
    assert ran.state_rows == 0


STATIC_LEFT = {
    "equality": jn.Equi(on="k", where="l.on < r.on"),
    "equality, right": jn.Equi(on="k", how="right"),
    "band": jn.Range(on="on", by="k", lower=-2, upper=2, how="right"),
    "overlap": jn.Overlap(left_interval=("on", "n"), right_interval=("on", "end")),
    "predicate": jn.Where("l.on <= r.on AND l.n <> r.end", how="right"),
}


@pytest.mark.one_in(5)
@pytest.mark.in_turn
@pytest.mark.parametrize("case", STATIC_LEFT)
def test_a_left_table_that_does_not_change(hosting, tmp_path, case):
    spec, chance = STATIC_LEFT[case], random.Random(case)
    changes, tables = epochs(RIGHT, chance, 3)
    dimension = epochs(LEFT, chance, 1)[1][0]
    write_files([said(each, "debezium") for each in changes], tmp_path / "right")
    write_files([dimension], tmp_path / "left")
    path = str(tmp_path / "left")
    # A DataFrame is collected when the plan is made, and files are read by tasks.
    left = path if len(case) % 2 else hosting.read.parquet(path)
    plan = jn.plan_changes(left, read_stream(hosting, tmp_path / "right"), spec)
    assert plan.algorithm == "broadcast_left"
    assert "the right side; each micro-batch is joined on its own" in plan.explain()
    ran = run(plan.execute(), tmp_path)
    wanted = jn.plan(dimension, tables[-1], spec).execute()
    assert wanted.num_rows > 0
    assert summed(ran.answer) == Counter(canonical_rows(wanted))
    assert ran.state_rows == 0


def test_what_is_told(hosting):
    rows = hosting.readStream.format("rate").load().selectExpr("value AS k", "CAST(value % 2 AS INT) AS _weight")
    all_come = rows.drop("_weight")
    said = jn.plan_changes(rows, all_come, jn.Equi(on="k")).explain()
    for line in (
        "hosted: Juncture's join of tables that change in Spark's stateful operator",
        "left changes  _weight",
        "right changes  no column: all rows are inserted",
        "partitions  2 by key",
    ):
        assert line in said, said
    table = hosting.range(3).toDF("k")
    spec = jn.Equi(on="k")
    for left, right, refused, message in (
        (table, table, spec, r"Neither input is a streaming DataFrame.*spark\.readStream"),
        (table, rows, jn.Equi(on="k", how="left"), "how='left' needs state.*Read the left table with"),
        (table, rows, jn.Equi(on="k", agg={"*": "count"}), "agg= needs state for right rows"),
        (rows, table, jn.Equi(on="k", how="full"), "how='full' needs state.*Read the right table with"),
    ):
        with pytest.raises(jn.PlanError, match=message):
            jn.changes(left, right, refused)
    for arguments in ({"state": "folder"}, {"memory": "1GB"}):
        with pytest.raises(jn.PlanError, match=rf"{next(iter(arguments))}=.*joins of two schemas"):
            jn.changes(rows, rows, spec, **arguments)
    with pytest.raises(jn.SpecError, match="output='weights' is unknown"):
        jn.changes(rows, rows, spec, output="weights")
    with pytest.raises(jn.SpecError, match="unmatched_deletes='skip' is unknown"):
        jn.changes(rows, table, spec, unmatched_deletes="skip")
    with pytest.raises(jn.SpecError, match=r"no argument changes=True.*jn\.changes\(left, right, spec\)"):
        jn.join(rows, rows, on="k", changes=True)
    with pytest.raises(jn.SchemaError, match="'_weight' and '_change_type' of the left changes both mark changes"):
        jn.changes(rows.selectExpr("*", "'insert' AS _change_type"), rows, spec)
