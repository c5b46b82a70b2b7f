"""Equality joins through Spark itself: plans, refusals, files, hot keys, and names."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import PlanError
from support.engines import SPARK_NEAR, to_spark
from support.kinds import defined_rows
from support.tables import difference, read_table

pytestmark = pytest.mark.in_turn

ALGORITHMS = SPARK_NEAR["equi"]
LEFT = read_table("id: int64 | a.b: string | A: int64\n1 | x | 1\n2 | y | 2\nnull | z | 3\n2 | w | 4")
RIGHT = read_table("id: int32 | `: string | a: int64\n2 | p | 1\n2 | q | 2\n7 | r | 3\nnull | s | 4")
SPEC = jn.Equi(on="id")


def frames(spark) -> tuple[object, object]:
    return to_spark(spark, LEFT), to_spark(spark, RIGHT)


def test_names_that_sql_would_take_apart(spark):
    answer = jn.join(*frames(spark), on="id", how="left", where="l.A <> r.a", algorithm="sort_merge")
    assert answer.columns == ["id", "a.b", "A", "`", "a"]
    spec = jn.Equi(on="id", how="left", where="l.A <> r.a")
    assert difference(answer.toArrow(), defined_rows(spec, LEFT, RIGHT), ordered=False) is None


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("nulls_equal", [False, True])
def test_a_join_by_key_goes_by_names(spark, how, nulls_equal):
    spec = jn.Equi(on="id", how=how, nulls_equal=nulls_equal)
    answer = jn.plan(*frames(spark), spec, lazy=True).execute()
    assert difference(answer.toArrow(), defined_rows(spec, LEFT, RIGHT), ordered=False) is None


def test_names_that_differ_in_case_and_a_table_joined_to_itself(spark):
    left = read_table("id: int64 | ID: int64 | l.{x}: string\n1 | 2 | x\n2 | 1 | y")
    frame = spark.createDataFrame([(1, 2, "x"), (2, 1, "y")], "a long, b long, c string").toDF(*left.schema.names)
    spec = jn.Equi(left_on="id", right_on="ID", suffix="_again")
    answer = jn.plan(frame, frame, spec, lazy=True).execute()
    assert difference(answer.toArrow(), defined_rows(spec, left, left), ordered=False) is None


def test_files_are_counted_by_their_footers(spark, tmp_path):
    paths = [str(tmp_path / name) for name in ("left.parquet", "right.parquet")]
    for path, table in zip(paths, (LEFT, RIGHT), strict=True):
        pq.write_table(table, path)
    plan = jn.plan(*paths, SPEC, spark=spark)
    assert plan.jobs == ()
    assert "4 rows (Parquet footers)" in plan.explain()
    assert difference(plan.execute().toArrow(), defined_rows(SPEC, LEFT, RIGHT), ordered=False) is None


@pytest.mark.parametrize(
    ("algorithm", "operator"),
    [
        ("broadcast", "BroadcastHashJoin"),
        ("broadcast_left", "BroadcastHashJoin"),
        ("shuffle_hash", "ShuffledHashJoin"),
        ("sort_merge", "SortMergeJoin"),
    ],
)
def test_spark_takes_the_operator_that_was_chosen(spark, capsys, algorithm, operator):
    jn.plan(*frames(spark), SPEC, algorithm=algorithm).execute().explain()
    assert operator in capsys.readouterr().out


def test_lazy_plans_run_no_job(spark):
    plan = jn.plan(*frames(spark), SPEC, lazy=True)
    assert plan.algorithm == "sort_merge"
    assert plan.jobs == ()
    assert "hot keys   not sampled: lazy=True forbids jobs" in plan.explain()
    for algorithm in ("broadcast", "broadcast_left", "shuffle_hash"):
        with pytest.raises(PlanError, match="side is unknown"):
            jn.plan(*frames(spark), SPEC, lazy=True, algorithm=algorithm)


def test_refusals_say_why(spark):
    full = jn.Equi(on="id", how="full", coalesce=False)
    with pytest.raises(PlanError, match="keeps unmatched right rows"):
        jn.plan(*frames(spark), full, algorithm="broadcast")
    with pytest.raises(PlanError, match="needs all matches of a left row"):
        jn.plan(*frames(spark), full, algorithm="broadcast_left")


def test_decimals_that_sql_cannot_compare_are_one_sentence(spark):
    left, right = (spark.range(2).selectExpr(f"CAST(id AS DECIMAL(38, {scale})) AS d") for scale in (0, 18))
    with pytest.raises(PlanError, match=r"decimal\(38,0\) and decimal\(38,18\) have no common type in SQL"):
        jn.join(left, right, on="d")


def test_what_is_known_of_the_sides_decides(spark):
    def chosen(left: int, right: int, row_bytes: int = 100) -> str:
        sides = (jn.SideStats(rows=rows, row_bytes=row_bytes) for rows in (left, right))
        stats = jn.Stats(**dict(zip(("left", "right"), sides, strict=True)))
        return jn.plan(*frames(spark), SPEC, stats=stats).algorithm

    assert chosen(10**9, 1_000) == "broadcast"
    assert chosen(1_000, 10**9) == "broadcast_left"
    assert chosen(10**9, 10**9) == "sort_merge"


def test_a_side_is_not_held_on_someones_word(spark):
    left, right = spark.range(10), spark.range(40_000).selectExpr("id", "repeat('x', 4000) AS text")
    stats = jn.Stats(left=jn.SideStats(rows=10**9), right=jn.SideStats(rows=40, row_bytes=4))
    plan = jn.plan(left, right, SPEC, stats=stats)
    assert plan.algorithm in ("shuffle_hash", "sort_merge")
    assert "40,000 rows (count, given: 40), about 160.3 MB (measured, given: 4)" in plan.explain()
    assert plan.jobs[0] == "counted the right side, whose size only the caller states"
    with pytest.raises(PlanError, match="algorithm='broadcast' cannot run this join: the right side has about 160 MB"):
        jn.plan(left, right, SPEC, stats=stats, algorithm="broadcast")
    lazy = jn.plan(left, right, SPEC, stats=stats, lazy=True)
    assert lazy.algorithm == "sort_merge"
    assert "the size of the right side comes from stats=, and lazy=True forbids counting it" in lazy.explain()


def test_too_much_said_of_a_side_is_slower_only(spark):
    stats = jn.Stats(left=jn.SideStats(rows=10**7), right=jn.SideStats(rows=10**7, distinct_keys=10**7))
    for algorithm in ("auto", "shuffle_hash"):
        plan = jn.plan(spark.range(10_000), spark.range(5_000), SPEC, stats=stats, algorithm=algorithm)
        assert plan.execute().count() == 5_000


def test_hot_keys_are_found_divided_and_told(spark):
    left = spark.range(40_000).selectExpr("if(id % 2 = 0, 0, id) AS k", "id AS v")
    right = spark.range(1_000).selectExpr("id AS k", "id * 10 AS w")
    # A hundred times more rows than there are, so that it would be worth it.
    stats = jn.Stats(left=jn.SideStats(rows=4_000_000), right=jn.SideStats(rows=100_000))
    plan = jn.plan(left, right, jn.Equi(on="k", how="full"), algorithm="sort_merge", stats=stats)
    [job] = plan.jobs
    assert job.startswith("sampled ")
    assert "hot keys   left rows of one key split into " in plan.explain()
    answer = plan.execute()
    assert answer.count() == 40_000 + 499
    assert answer.where("w IS NOT NULL").count() == 20_000 + 500 + 499


def test_the_session_stays_as_it_was(spark):
    def state():
        return {row["key"]: row["value"] for row in spark.sql("SET").collect()}, spark.catalog.listTables()

    before = state()
    for algorithm in ALGORITHMS:
        jn.plan(*frames(spark), SPEC, algorithm=algorithm).execute().count()
    assert state() == before
