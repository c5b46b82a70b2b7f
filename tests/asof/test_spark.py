"""As-of joins through Spark itself: what needs a session to be shown."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import juncture as jn
from juncture import testing as reference
from juncture.errors import DataError, PlanError, SchemaError
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spark.asof.plan import asof_stages
from juncture.spark.exchange import BuiltJoin, partition_count, result_schema, task_output
from juncture.spark.input.sides import FrameSide
from juncture.spark.session.session import resources
from juncture.spark.tasks.cuts import Cuts
from juncture.spark.tasks.placement import Coding
from support.engines import SPARK, to_spark
from support.tables import difference, read_table

pytestmark = pytest.mark.in_turn

LEFT = read_table(
    "ts: int64 | robot_id: string | frame_id: int64\n2 | a | 1\n5 | a | 2\n8 | b | 3\nnull | b | 4\n9 | null | 5"
)
RIGHT = read_table(
    "ts: int64 | robot_id: string | angle: float64\n1 | a | 10.0\n4 | a | 20.0\n8 | b | 30.0\n8 | null | 1.0"
)
SPEC = jn.Asof(on="ts", by="robot_id")


def expected(spec: jn.Asof, left: pa.Table = LEFT, right: pa.Table = RIGHT) -> pa.Table:
    return reference.asof_join(spec.resolve(left.schema, right.schema), left, right)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", SPARK)
def test_any_names(spark, algorithm):
    names = ["t.s", "Robot`id", "robot`ID"], ["t.s", "robot`ID", "the angle, in °"]
    left, right = LEFT.rename_columns(names[0]), RIGHT.rename_columns(names[1])
    spec = jn.Asof(on="t.s", left_by="Robot`id", right_by="robot`ID", order_by="the angle, in °")
    frames = spark.createDataFrame(LEFT).toDF(*names[0]), spark.createDataFrame(RIGHT).toDF(*names[1])
    answer = jn.plan(*frames, spec, algorithm=algorithm).execute()
    assert difference(answer.toArrow(), expected(spec, left, right), ordered=False) is None


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[str, str]:
    """Write both sides to folders of files, with a row or two in each row group."""
    folder = tmp_path_factory.mktemp("files")
    for name, table in (("left", LEFT), ("right", RIGHT)):
        Path(folder, name).mkdir()
        pq.write_table(table.slice(0, 2), folder / name / "0.parquet", row_group_size=1)
        pq.write_table(table.slice(2), folder / name / "1.parquet", row_group_size=2)
    return str(folder / "left"), str(folder / "right")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["left", "inner", "semi", "anti", "full"])
@pytest.mark.parametrize("algorithm", SPARK)
def test_files_that_the_tasks_read(spark, files, algorithm, how):
    spec = jn.Asof(on="ts", by="robot_id", how=how)
    if how == "full" and algorithm not in ("hash", "range"):
        with pytest.raises(PlanError, match="keeps unmatched right rows"):
            jn.plan(*files, spec, algorithm=algorithm, spark=spark)
        return
    plan = jn.plan(*files, spec, algorithm=algorithm, spark=spark)
    assert difference(plan.execute().toArrow(), expected(spec), ordered=False) is None
    assert len(plan.jobs) == (algorithm == "range")


def test_a_path_and_a_frame(spark, files):
    answer = jn.plan(files[0], spark.createDataFrame(RIGHT), SPEC).execute()
    assert difference(answer.toArrow(), expected(SPEC), ordered=False) is None


def test_a_damaged_page_is_one_sentence(spark, tmp_path):
    for name, table in (("left", LEFT), ("right", RIGHT)):
        pq.write_table(table, tmp_path / f"{name}.parquet", compression="snappy")
    content = bytearray((tmp_path / "right.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    (tmp_path / "right.parquet").write_bytes(content)
    for algorithm in ("broadcast", "broadcast_left", "hash"):
        plan = jn.plan(
            str(tmp_path / "left.parquet"), str(tmp_path / "right.parquet"), SPEC, algorithm=algorithm, spark=spark
        )
        said = r"^\[JN-FILE-DAMAGED\] Row group 0 of the Parquet file '.*right\.parquet'"
        with pytest.raises(DataError, match=said) as raised, jn.spark_errors():
            plan.execute().toArrow()
        assert "Traceback" not in str(raised.value)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", ["broadcast", "broadcast_left", "hash", "range"])
def test_a_refused_tie_is_one_sentence(spark, algorithm):
    twice = to_spark(spark, pa.concat_tables([RIGHT, RIGHT]))
    spec = jn.Asof(on="ts", by="robot_id", ties="error")
    answer = jn.plan(to_spark(spark, LEFT), twice, spec, algorithm=algorithm).execute()
    said = r"^\[JN-TIE\] Several right rows with the same 'ts'.*, or pass ties='greatest' with order_by=\.$"
    with pytest.raises(DataError, match=said), jn.spark_errors():
        answer.toArrow()


def test_what_runs_a_query_itself_raises_the_error_of_a_task(spark, tmp_path):
    twice = to_spark(spark, pa.concat_tables([RIGHT, RIGHT]))
    refused = jn.plan(to_spark(spark, LEFT), twice, jn.Asof(on="ts", by="robot_id", ties="error"), algorithm="hash")
    frame, same = refused.execute(), r"^\[JN-TIE\] Several right rows with the same 'ts'"
    rates = {"rates": jn.Right(to_spark(spark, RIGHT), SPEC, prefix="rates_")}
    with pytest.raises(DataError, match=same):
        refused.analyze()
    with pytest.raises(DataError, match=same):
        jn.plan(frame, to_spark(spark, RIGHT), SPEC, algorithm="range")
    with pytest.raises(DataError, match=same):
        jn.plan(frame, to_spark(spark, RIGHT), SPEC, lazy=True).match_report()
    with pytest.raises(DataError, match=same):
        jn.plan_many(to_spark(spark, LEFT), {"rates": jn.Right(frame, SPEC, prefix="rates_")})
    with pytest.raises(DataError, match=same):
        jn.plan_many(frame, rates)
    # An action of the user raises an exception of Spark, which carries the error: every action, whatever it is.
    for action in (frame.collect, frame.toPandas, frame.count, lambda: frame.write.parquet(str(tmp_path / "out"))):
        with pytest.raises(PySparkException) as caught:
            action()
        error = jn.error_from_spark(caught.value)
        assert isinstance(error, DataError)
        assert error.name == "JN-TIE"
        assert error.message.endswith("or pass ties='greatest' with order_by=.")


def test_lazy_plans_run_no_job(spark):
    frames = to_spark(spark, LEFT), to_spark(spark, RIGHT)
    plan = jn.plan(*frames, SPEC, lazy=True)
    assert plan.jobs == ()
    assert plan.algorithm in ("hash", "window")
    for algorithm in ("broadcast", "broadcast_left", "range"):
        with pytest.raises(PlanError, match="lazy=True forbids"):
            jn.plan(*frames, SPEC, lazy=True, algorithm=algorithm)


def test_jobs_are_named(spark):
    frames = to_spark(spark, LEFT), to_spark(spark, RIGHT)
    jobs = {algorithm: jn.plan(*frames, SPEC, algorithm=algorithm).jobs for algorithm in SPARK}
    assert jobs["hash"] == ("counted both sides",)
    assert jobs["range"] == ("counted both sides", "sampled 9 rows of both sides")
    assert jobs["window"] == ()
    assert len(jobs["broadcast"]) == 1
    assert jobs["broadcast"][0].startswith("collected the right side: 4 rows, ")
    assert jobs["broadcast_left"][0].startswith("collected the left side: 5 rows, ")


def test_what_is_given_is_not_looked_at(spark):
    known = Stats(left=SideStats(rows=10**9), right=SideStats(rows=10**9))
    plan = jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), SPEC, algorithm="hash", stats=known)
    assert plan.jobs == ()
    assert plan.stats.left.provenance["rows"] == "given"


def test_a_side_is_not_collected_on_someones_word(spark):
    left, right = spark.range(10).toDF("ts"), spark.range(40_000).selectExpr("id AS ts", "repeat('x', 4000) AS text")
    stats = jn.Stats(left=SideStats(rows=10**8), right=SideStats(rows=40))
    with pytest.raises(PlanError, match="the right side has about 160 MB; the limit for a copy in every task is 67 MB"):
        jn.plan(left, right, jn.Asof(on="ts"), stats=stats, algorithm="broadcast")
    wrong = jn.Stats(left=SideStats(rows=10_000, on_range=(0, 0)), right=SideStats(rows=10))
    exact = jn.Asof(on="ts", tolerance=0, how="inner")
    plan = jn.plan(left, spark.range(10_000).toDF("ts"), exact, stats=wrong)
    assert plan.algorithm == "broadcast"
    assert "10,000 rows (count, given: 10)" in plan.explain()
    assert plan.execute().count() == 10


def test_the_session_stays_as_it_was(spark):
    def state():
        settings = {row["key"]: row["value"] for row in spark.sql("SET").collect()}
        return settings, spark.catalog.listTables()

    frames = to_spark(spark, LEFT), to_spark(spark, RIGHT)
    before = state()
    for algorithm in SPARK:
        jn.plan(*frames, SPEC, algorithm=algorithm).execute().count()
    assert state() == before


def test_types_stay_as_they_were(spark):
    left = spark.sql(
        "SELECT 1 AS ts, 'x' COLLATE UTF8_LCASE AS a, CAST(1 AS DECIMAL(20, 3)) AS b, void AS c, "
        "INTERVAL '1' DAY AS d, array(struct(1 AS f)) AS e, TIMESTAMP_NTZ '2026-01-01 00:00:00' AS g, "
        "TIMESTAMP '2026-01-01 00:00:00' AS h FROM VALUES (NULL) AS t(void)"
    )
    right = left.toDF("ts", "A2", "b2", "c2", "d2", "e2", "g2", "h2")
    for algorithm in SPARK:
        answer = jn.join_asof(left, right, on="ts", algorithm=algorithm) if algorithm != "hash" else None
        if answer is not None:
            wanted = [field.dataType for field in (*left.schema.fields, *right.schema.fields[1:])]
            assert [field.dataType for field in answer.schema.fields] == wanted
            assert answer.collect()[0]["e2"] == left.collect()[0]["e"]


def test_types_that_python_cannot_have(spark):
    frame = spark.sql("SELECT 1 AS ts, parse_json('1') AS v")
    with pytest.raises(SchemaError, match="The left column 'v' is of type variant"):
        jn.join_asof(frame, frame, on="ts")


def test_every_partition_of_a_hot_key_sees_what_it_needs(spark):
    left = pa.table({"ts": range(0, 1_000, 7)})
    right = pa.table({"ts": range(0, 1_000, 50), "v": range(20)})
    sides = FrameSide.of(to_spark(spark, left), "left"), FrameSide.of(to_spark(spark, right), "right")
    cuts = Cuts(*(pa.array([0] * 9, pa.uint64()).to_numpy(), pa.array(range(5, 905, 100)).to_numpy()))
    assert cuts.described == "10; one key split"
    for how in ("left", "full"):
        join = jn.Asof(on="ts", how=how).resolve(sides[0].schema, sides[1].schema)
        schema = result_schema(join, *sides)
        stages = asof_stages(join, Coding.of(join), cuts, task_output(schema), resources(spark))
        frame = BuiltJoin.of(stages.tasks(*sides), schema).frame
        assert difference(frame.toArrow(), reference.asof_join(join, left, right), ordered=False) is None


def test_a_side_that_is_too_large_to_send(spark, monkeypatch):
    monkeypatch.setattr("juncture.spark.exchange.SENT_BYTES_MAX", 100)
    with pytest.raises(PlanError, match=r"The right side has 4 rows in .* bytes, but at most 100 bytes can be sent"):
        jn.plan(to_spark(spark, LEFT), to_spark(spark, RIGHT), SPEC, algorithm="broadcast")


def test_partitions_fit_into_a_task():
    side = SideStats(rows=10**8, row_bytes=100)
    room = Resources(cores=4, memory_bytes=1 << 30)
    assert partition_count(Stats(left=side, right=side), room, 200) == 75
    assert partition_count(Stats(left=side), room, 200) == 200
    assert (
        partition_count(Stats(left=SideStats(rows=1, row_bytes=1), right=SideStats(rows=1, row_bytes=1)), room, 200)
        == 8
    )


def test_resources(spark):
    found = resources(spark)
    assert found.cores == 2
    assert found.memory_bytes == 512 << 20


def test_errors_keep_their_class(spark):
    with pytest.raises(DataError, match=r"does not exist\. Expected a Parquet file"):
        jn.plan("/nowhere", "/nowhere", SPEC, spark=spark)
