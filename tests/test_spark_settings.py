"""Settings of the session that change how rows travel never change the answer."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture import testing as reference
from juncture.errors import PlanError
from support.engines import SPARK, to_spark
from support.tables import difference, read_table

pytestmark = pytest.mark.in_turn

LEFT = read_table(
    r"""
    ts: timestamp[us, UTC]     | k: string | day: date32 | wall: timestamp[us]
    2026-03-08T07:30:00        | a         | 2026-03-08  | 2026-03-08T02:30:00
    2026-11-01T05:30:00        | a         | 2026-11-01  | 2026-11-01T01:30:00
    2026-11-01T06:30:00.000001 | b\'s      | null        | null
    1883-11-18T17:00:00        | b\'s      | 1883-11-18  | 1883-11-18T12:00:00
    null                       | a         | 0001-01-01  | 0001-01-01T00:00:00
    """
)
RIGHT = read_table(
    r"""
    ts: timestamp[us, UTC]     | k: string | seen: timestamp[us, UTC] | notes: list<string>
    2026-03-08T06:59:59.999999 | a         | 2026-03-08T07:00:00      | ["spring", null]
    2026-11-01T05:00:00        | a         | 2026-11-01T05:59:59      | []
    2026-11-01T06:00:00        | b\'s      | 2026-11-01T06:00:00      | null
    2026-11-01T06:00:00        | b\'s      | null                     | ["autumn"]
    1583-01-01T00:00:00        | b\'s      | 1583-01-01T00:00:00      | ["long ago"]
    """
)
SPEC = jn.Asof(on="ts", by="k", coalesce=False)

SETTINGS = {
    "another zone": {"spark.sql.session.timeZone": "America/New_York"},
    "small batches": {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"},
    "large strings": {"spark.sql.execution.arrow.useLargeVarTypes": "true"},
    "names by case": {"spark.sql.caseSensitive": "true"},
    "no ANSI": {"spark.sql.ansi.enabled": "false"},
    "adaptive execution": {"spark.sql.adaptive.enabled": "true"},
    "no adaptive execution": {"spark.sql.adaptive.enabled": "false"},
    "local times by default": {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "many partitions": {"spark.sql.shuffle.partitions": "13"},
    "another dialect": {
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    },
}


@pytest.fixture(params=SETTINGS)
def session(request: pytest.FixtureRequest, spark) -> Iterator[object]:
    before = {name: spark.conf.get(name) for name in SETTINGS[request.param]}
    for name, value in SETTINGS[request.param].items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.one_in(2)
def test_the_answer_stays_the_same(session, request):
    """By Spark's own SQL and one of the ways through tasks, in turn, or by all of them in a nightly run."""
    turn = list(SETTINGS).index(request.node.callspec.params["session"])
    in_tasks = [algorithm for algorithm in SPARK if algorithm != "window"]
    algorithms = SPARK if request.config.getoption("--all") else ("window", in_tasks[turn % len(in_tasks)])
    expected = reference.asof_join(SPEC.resolve(LEFT.schema, RIGHT.schema), LEFT, RIGHT)
    frames = [to_spark(session, table) for table in (LEFT, RIGHT)]
    for algorithm in algorithms:
        result = jn.plan(*frames, SPEC, algorithm=algorithm).execute()
        # Arrow tables come with the session's zone and its kind of strings: the same instants, and the same text.
        answer = result.toArrow().cast(expected.schema)
        assert difference(answer, expected, ordered=False) is None, algorithm


WHERE = jn.Where(
    r"l.k = r.k AND l.k IN ('a', 'b\\\'s') AND r.ts <= l.ts AND l.ts - r.ts < INTERVAL 1 DAY "
    "AND l.ts - INTERVAL 1 DAY < r.ts",
    how="left",
)


@pytest.mark.one_in(2)
def test_the_answer_of_a_predicate_stays_the_same(session):
    """A day is 24 hours in the nights of spring and autumn, too."""
    expected = reference.where_join(WHERE.resolve(LEFT.schema, RIGHT.schema), LEFT, RIGHT)
    frames = [to_spark(session, table) for table in (LEFT, RIGHT)]
    for algorithm in ("broadcast", "sql"):
        answer = jn.plan(*frames, WHERE, algorithm=algorithm).execute().toArrow().cast(expected.schema)
        assert difference(answer, expected, ordered=False) is None, algorithm


def test_old_intervals_are_left_to_tasks(spark):
    """Their length is no number, so that Spark's SQL cannot compare times by it."""
    frame, name = to_spark(spark, LEFT), "spark.sql.legacy.interval.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "true")
    wall, equi = jn.Asof(on="wall"), jn.Equi(on="k", where="l.ts < r.ts")
    for spec, algorithm in ((wall, "window"), (WHERE, "sql"), (equi, "auto")):
        with pytest.raises(PlanError, match=r"spark\.sql\.legacy\.interval\.enabled is true"):
            jn.plan(frame, frame, spec, algorithm=algorithm)
    assert jn.plan(frame, frame, WHERE, algorithm="broadcast").algorithm == "broadcast"
    assert jn.plan(frame, frame, jn.Equi(on="wall"), algorithm="broadcast").execute().count() == 4
    spark.conf.set(name, before)


def test_no_setting_is_changed(spark):
    before = {row["key"]: row["value"] for row in spark.sql("SET").collect()}
    frame = to_spark(spark, RIGHT)
    for algorithm in SPARK:
        jn.plan(frame, frame, SPEC, algorithm=algorithm).execute().toArrow()
    assert {row["key"]: row["value"] for row in spark.sql("SET").collect()} == before
    assert spark.catalog.listTables() == []


def test_times_of_files_are_refused_where_the_type_is_switched_off(spark, tmp_path):
    files = {"times": pa.table({"k": [1], "t": [datetime.time(1)]}), "others": pa.table({"k": [1]})}
    for name, table in files.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in files]
    name, before = "spark.sql.timeType.enabled", spark.conf.get("spark.sql.timeType.enabled")
    spark.conf.set(name, "false")
    with pytest.raises(
        jn.SchemaError, match=r"left column 't' .* time\(6\), which is disabled in this session\. Set .*enabled to true"
    ):
        jn.plan(*paths, jn.Equi(on="k"), spark=spark)
    spark.conf.set(name, "true")
    assert jn.plan(*paths, jn.Equi(on="k"), spark=spark).execute().collect() == [(1, datetime.time(1))]
    spark.conf.set(name, before)
