"""How many rows a join should give, and what it should shuffle."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.planner.algorithm import JoinFeatures, PlanningInput
from juncture.planner.choose import choose
from juncture.planner.expected import float_of
from juncture.planner.statistics import Resources

SCHEMA = pa.schema([("ts", pa.int64()), ("end", pa.int64()), ("k", pa.int64()), ("w", pa.int64())])
SIDE = {"rows": 1_000, "row_bytes": 10}


def expected(spec, left=None, right=None, engine="local", algorithm="auto", **more):
    stats = jn.Stats(left=jn.SideStats(**SIDE | (left or {})), right=jn.SideStats(**SIDE | (right or {})))
    room = Resources(cores=2, memory_bytes=1 << 30)
    join = spec.resolve(SCHEMA, SCHEMA)
    return choose(PlanningInput(join=join, engine=engine, stats=stats, resources=room, **more), algorithm)


@pytest.mark.parametrize(
    ("how", "rows"),
    [("inner", 10_000), ("left", 11_000), ("right", 10_000), ("full", 11_000), ("semi", 1_000), ("anti", 1_000)],
)
def test_equal_keys_by_distinct_keys(how, rows):
    left, right = {"distinct_keys": 100, "rows": 2_000}, {"distinct_keys": 50, "rows": 500}
    found = expected(jn.Equi(on="k", how=how, coalesce=how in ("inner", "left")), left, right).output_rows
    assert (found.value, found.source) == (rows, "2,000 * 500 rows / 100 distinct keys")


def test_nulls_take_no_part_in_equality():
    sides = {"distinct_keys": 10, "null_rows": 500}, {"distinct_keys": 10}
    assert expected(jn.Equi(on="k"), *sides).output_rows.value == 50_000
    assert expected(jn.Equi(on="k", nulls_equal=True), *sides).output_rows.value == 100_000
    assert expected(jn.Equi(on="k", how="anti"), *sides).output_rows.value == 500


@pytest.mark.parametrize(
    ("spec", "sides", "said"),
    [
        (jn.Equi(on="k"), ({}, {}), "keys not sampled"),
        (jn.Equi(on="k"), ({"rows": None}, {"distinct_keys": 3}), "a side is not counted"),
        (jn.Equi(on="k", how="left"), ({}, {"distinct_keys": 3}), "keys of one side not sampled"),
        (jn.Asof(on="ts", how="anti"), ({}, {}), "at most the 1,000 left rows: those without a match are not sampled"),
        (jn.Asof(on="ts"), ({"rows": None}, {}), "the left side is not counted"),
        (jn.Range(on="ts", lower="w", upper=1), ({}, {}), "matching pairs not sampled"),
        (jn.Range(on="ts", lower=0, upper=1), ({}, {"on_range": (0, 9)}), "ranges of on not known"),
        (jn.Where("l.ts < r.ts"), ({}, {}), "matching pairs not sampled"),
    ],
)
def test_where_nobody_knows_it_says_so(spec, sides, said):
    found = expected(spec, *sides).output_rows
    assert found.value is None
    assert found.source.startswith(said)


@pytest.mark.parametrize(
    ("how", "matches", "rows"),
    [("left", 1, 1_000), ("inner", 1, 1_000), ("semi", 1, 1_000), ("right", 1, 5_000), ("full", 3, 5_000)],
)
def test_as_of(how, matches, rows):
    found = expected(jn.Asof(on="ts", how=how, matches=matches), {}, {"rows": 5_000}).output_rows
    assert found.value == rows
    assert found.source == ("each left row once" if how == "left" else found.source)


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        pytest.param(jn.Range(on="ts", lower=-5, upper=4), 100_000, id="a tenth of the extent"),
        pytest.param(jn.Range(on="ts", lower=-5, upper=4, by="k"), 10_000, id="of one key in ten"),
        pytest.param(jn.Range(on="ts", lower=0, upper=10**6), 500_000, id="all that is later"),
        pytest.param(jn.Range(on="ts", lower=500, upper=600), 0, id="out of reach"),
        pytest.param(jn.Range(on="ts", lower=None, upper=0), 500_000, id="open"),
        pytest.param(jn.Range(on="ts", lower=-5, upper=4, agg={"ts": "count"}, how="left"), 1_000, id="folded"),
    ],
)
def test_windows_by_their_width(spec, rows):
    side = {"on_range": (0, 99), "distinct_keys": 10}
    assert expected(spec, side, side).output_rows.value == pytest.approx(rows, rel=0.06)


@pytest.mark.parametrize(("number", "least"), [(10**400, 1e308), (-math.inf, -1e309), (3, 3)])
def test_numbers_beyond_all_floats_become_the_last_float(number, least):
    assert float_of(number) >= least
    assert math.isfinite(float_of(number))


def test_a_sample_of_pairs_decides_where_there_is_one():
    found = expected(
        jn.Where("l.ts < r.ts", how="left"), features=JoinFeatures(inequalities=1, pairs=500.0, pairs_how="by a look")
    ).output_rows
    assert found.source == "by a look"
    assert found.value == pytest.approx(500 + 1_000 * np.exp(-0.5), abs=1)


@pytest.mark.parametrize(
    ("algorithm", "shuffled"), [("sort_merge", 20_000), ("shuffle_hash", 20_000), ("broadcast", 0)]
)
def test_what_is_shuffled_on_spark(algorithm, shuffled):
    found = expected(jn.Equi(on="k"), engine="spark", algorithm=algorithm).shuffle_bytes
    assert found.value == shuffled
    assert expected(jn.Equi(on="k")).shuffle_bytes is None


def test_bins_are_shuffled_with_their_copies():
    features = JoinFeatures(is_partitionable=True, is_bounded=True, left_copies=1.0, right_copies=2.5)
    spec = jn.Range(on="ts", lower=0, upper=1)
    assert expected(spec, engine="spark", algorithm="bins", features=features).shuffle_bytes.value == 35_000


@pytest.mark.parametrize(
    ("spec", "algorithm", "held", "how"),
    [
        (jn.Asof(on="ts", by="k"), "broadcast", 116_000, "the right side whole, in Python"),
        (jn.Asof(on="ts", by="k"), "hash", 8_700, "5.0% of all rows, in Python; the excess spills"),
        (jn.Asof(on="ts", by="k"), "range", 4_350, "2.5% of all rows, in Python; the excess spills"),
        (jn.Asof(on="ts", by="k"), "native", None, "Spark decides how to bring rows together"),
        (
            jn.Equi(on="k"),
            "broadcast",
            80_000,
            "a table of the right side whole, in the JVM",
        ),
        (jn.Equi(on="k"), "sort_merge", 87_000, "50.0% of all rows, sorted in the JVM"),
        (jn.Equi(on="k"), "shuffle_hash", 20_000, "50.0% of all rows, as a table in the JVM, of the smaller side only"),
        (jn.Range(on="ts", lower=0, upper=1), "bins", 145_000, "50.0% of all rows, sorted in the JVM"),
    ],
)
def test_what_a_task_holds_on_spark(spec, algorithm, held, how):
    right = {"rows": 2_000, "hottest_key_share": 0.05}
    features = JoinFeatures(is_partitionable=True, is_bounded=True, left_copies=1.0, right_copies=2.0)
    found = expected(
        spec, {}, right, engine="spark", algorithm=algorithm, partitions=40, features=features, native=True
    )
    assert found.task_bytes.value == held
    assert found.task_bytes.source.startswith(how)


def test_the_plan_says_it_and_the_analysis_what_came():
    rng = np.random.default_rng(0)
    table = pa.table({"k": rng.integers(0, 100, 10_000)})
    analysis = jn.plan(table, table, jn.Equi(on="k")).analyze()
    facts = json.loads(analysis.explain(format="json"))
    assert facts["expected"]["shuffle_bytes"] is facts["expected"]["task_bytes"] is None
    assert facts["expected"]["output_rows"]["value"] == pytest.approx(facts["measured"]["output_rows"], rel=0.05)
    assert "  output     about 1,000,000 rows (10,000 * 10,000 rows / 100 distinct keys)\n" in str(analysis)
    assert " rows (expected about 1,000,000)" in str(analysis)
