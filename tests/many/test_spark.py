"""Joins of many tables to one spine on Spark: equal to those in-process, with one shuffle of the spine for each key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.planner.many import ManyPlan
from juncture.spark.many.plan import plan
from juncture.spark.session.session import resources as resources_of
from many.strategies import random_case
from support.engines import to_spark
from support.tables import difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPINE = pa.table(
    {"id": range(60), "ts": [i % 7 for i in range(60)], "user": ["ann", "bob", None] * 20, "shop": [1, 2] * 30}
)
PRICES = pa.table({"ts": range(10), "shop": [1, 2] * 5, "price": range(10), "known": [9, 1] * 5})
CLICKS = pa.table({"ts": [0, 1, 1, 5, 6], "user": ["ann", "ann", "bob", "bob", "eve"], "page": [1, 2, 3, 4, 5]})
USERS = pa.table({"name": ["ann", "bob", "bob"], "since": [1, 2, 3]})
RATES = pa.table({"ts": [0, 3], "rate": [1.0, 2.0]})


def rights(**changed: jn.Right) -> dict[str, jn.Right]:
    window = jn.Range(on="ts", by="user", lower=-3, upper=0, agg={"*": "count", "page": "sum"})
    whole = {
        "price": jn.Right(PRICES, jn.Asof(on="ts", by="shop"), check_available_at="known"),
        "clicks": jn.Right(CLICKS, window, prefix="clicks_"),
        "user": jn.Right(USERS, jn.Equi(left_on="user", right_on="name", how="left"), duplicates="greatest"),
        "rate": jn.Right(RATES, jn.Asof(on="ts")),
    }
    return whole | changed


def on_spark(spark: SparkSession, tables: dict[str, jn.Right]) -> dict[str, jn.Right]:
    return {
        name: jn.Right(
            to_spark(spark, each.table), each.spec, each.columns, each.prefix, each.check_available_at, each.duplicates
        )
        for name, each in tables.items()
    }


def planned(spark: SparkSession, spine: pa.Table | str, tables: dict[str, jn.Right], broadcast_bytes: int) -> ManyPlan:
    resources = replace(resources_of(spark), broadcast_bytes=broadcast_bytes)
    if isinstance(spine, pa.Table):
        return plan(to_spark(spark, spine), on_spark(spark, tables), session=spark, resources=resources)
    return plan(spine, tables, session=spark, resources=resources)


@pytest.fixture(params=[64 << 20, 0], ids=["sent", "shuffled"])
def sent_bytes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.one_in(2)
def test_equals_the_join_in_process(spark: SparkSession, sent_bytes: int) -> None:
    tables = rights()
    joined = planned(spark, SPINE, tables, sent_bytes).execute().toArrow()
    assert difference(joined, jn.join_many(SPINE, tables), ordered=False) is None
    assert joined.column_names[-1] == "rate"


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (2, 3))])
def test_equals_the_join_in_process_whatever_the_tables(spark: SparkSession, seed: int, sent_bytes: int) -> None:
    spine, tables = random_case(1000 * seed + bool(sent_bytes), in_process=False)
    joined = planned(spark, spine, tables, sent_bytes).execute().toArrow()
    assert difference(joined, jn.join_many(spine, tables), ordered=False) is None


@pytest.mark.in_turn
def test_a_table_may_have_any_name(spark: SparkSession, sent_bytes: int) -> None:
    tables = {"spine": rights()["user"], "a.`b": rights()["price"]}
    found = planned(spark, SPINE, tables, sent_bytes)
    assert found.spine.rows == SPINE.num_rows
    assert difference(found.execute().toArrow(), jn.join_many(SPINE, tables), ordered=False) is None


@pytest.mark.in_turn
def test_reads_files_in_tasks(spark: SparkSession, tmp_path: Path, sent_bytes: int) -> None:
    paths = {}
    for name, table in {"spine": SPINE, **{name: each.table for name, each in rights().items()}}.items():
        paths[name] = str(tmp_path / f"{name}.parquet")
        pq.write_table(table, paths[name], row_group_size=20)
    tables = {
        name: jn.Right(paths[name], each.spec, prefix=each.prefix, duplicates=each.duplicates)
        for name, each in rights().items()
    }
    joined = planned(spark, paths["spine"], tables, sent_bytes).execute().toArrow()
    assert difference(joined, jn.join_many(SPINE, rights()), ordered=False) is None


@pytest.mark.in_turn
def test_shuffles_the_spine_once_for_each_key(spark: SparkSession) -> None:
    found = planned(spark, SPINE, rights(), 64)
    text = found.explain()
    assert "once for price" in text
    assert "the spine by user into" in text
    assert "once for clicks, user" in text
    assert "broadcast  to every task, without a shuffle: rate" in text
    assert [each.algorithm for each in found.tables.values()] == [*["shared_shuffle"] * 3, "broadcast"]


@pytest.mark.one_in(2)
@pytest.mark.in_turn
def test_counts_matches_as_in_process(spark: SparkSession, sent_bytes: int) -> None:
    tables = rights()
    assert (
        planned(spark, SPINE, tables, sent_bytes).match_report().to_dict()
        == jn.plan_many(SPINE, tables).match_report().to_dict()
    )


@pytest.mark.in_turn
def test_reports_on_a_spine_without_rows(spark: SparkSession, sent_bytes: int) -> None:
    spine = SPINE.slice(0, 0)
    report = planned(spark, spine, rights(), sent_bytes).match_report()
    assert report.to_dict() == jn.plan_many(spine, rights()).match_report().to_dict()


@pytest.mark.in_turn
def test_takes_several_rows_whose_key_is_null(spark: SparkSession, sent_bytes: int) -> None:
    users = pa.table({"user": ["ann", None, None], "since": [1, 2, 3]})
    lookup = jn.Equi(on="user", how="left", nulls_equal=True)
    ann = pa.table({"user": ["ann"] * 9})
    joined = planned(spark, ann, {"user": jn.Right(users, lookup)}, sent_bytes).execute().toArrow()
    assert joined["since"].to_pylist() == [1] * 9
    greatest = {"user": jn.Right(users, lookup, duplicates="greatest")}
    joined = planned(spark, SPINE, greatest, sent_bytes).execute().toArrow()
    assert difference(joined, jn.join_many(SPINE, greatest), ordered=False) is None


@pytest.mark.in_turn
def test_says_which_table_has_several_rows_of_a_key(spark: SparkSession) -> None:
    tables = rights(user=jn.Right(USERS, jn.Equi(left_on="user", right_on="name")))
    joined = jn.join_many(to_spark(spark, SPINE), on_spark(spark, tables))
    said = r"^\[JN-DUPLICATE-MATCHES\] In table 'user': .*Several rows match"
    with pytest.raises(jn.DataError, match=said), jn.spark_errors():
        joined.toArrow()


@pytest.mark.in_turn
def test_compares_expressions_and_converted_columns(spark: SparkSession, sent_bytes: int) -> None:
    spine = pa.table({"ts": [1, 5, 9, 12], "key": ["A", "b", "C", None], "n": pa.array([1, 2, 3, 4], pa.int64())})
    tables = {
        "prices": jn.Right(
            pa.table({"at": [0, 4, 8], "name": ["a", "b", "c"], "price": [1.0, 2.0, 3.0]}),
            jn.Asof(left_on=jn.expr("ts - 1"), right_on="at", left_by=jn.expr("lower(key)"), right_by="name"),
        ),
        "sizes": jn.Right(
            pa.table({"n": pa.array([1, 3, 9], pa.float64()), "size": [10, 30, 90]}), jn.Equi(on="n"), prefix="s_"
        ),
        "again": jn.Right(
            pa.table({"at": [2, 3], "word": ["a", "b"], "x": [7, 8]}),
            jn.Asof(left_on="ts", right_on="at", left_by=jn.expr("lower(key)"), right_by="word"),
        ),
    }
    joined = planned(spark, spine, tables, sent_bytes).execute().toArrow()
    assert difference(joined, jn.join_many(spine, tables), ordered=False) is None


@pytest.mark.in_turn
def test_refuses_what_does_not_go_together(spark: SparkSession) -> None:
    with pytest.raises(jn.PlanError, match=r"In table 'price'.*in this process"):
        jn.plan_many(to_spark(spark, SPINE), rights())
    with pytest.raises(jn.PlanError, match="memory="):
        jn.plan_many(to_spark(spark, SPINE), on_spark(spark, rights()), memory="1GB")
    first = jn.Right(PRICES, jn.Asof(on="ts", ties="first"), prefix="first_")
    with pytest.raises(jn.PlanError, match=r"In table 'first': ties='first'.*order_by="):
        jn.plan_many(to_spark(spark, SPINE), on_spark(spark, {"first": first}))
    pair = jn.Right(CLICKS, jn.Asof(left_on=["ts", "id"], right_on=["ts", "page"]), prefix="pair_")
    with pytest.raises(jn.PlanError, match=r"In table 'pair'.*a join of many tables on Spark cannot order by"):
        jn.plan_many(to_spark(spark, SPINE), on_spark(spark, {"pair": pair}))
