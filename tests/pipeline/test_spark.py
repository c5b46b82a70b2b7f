"""Pipelines on Spark: the same rows as in this process, in batch, as a stream, and on a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError
from juncture.pipeline.example import write_example
from juncture.pipeline.streaming import finished
from support.cluster import SHORT_LIVED, standalone_cluster
from support.processes import no_session

pytestmark = pytest.mark.in_turn

PIPELINE = """
[sources.trades]
path = "trades"
order = { on = "ts" }

[sources.quotes]
path = "quotes.parquet"

[sources.people]
path = "people.csv"

[sources.notes]
path = "notes.json"

[steps.quoted]
join = "asof"
left = "trades"
right = "quotes"
on = "ts"
by = "symbol"

[steps.owned]
join = "equi"
left = "quoted"
right = "people"
left_on = "owner"
right_on = "id"
how = "left"

[steps.noted]
join = "range"
left = "owned"
right = "notes"
on = "ts"
lower = -5
upper = 0
agg = { words = "sum", "*" = "count" }

[steps.some]
from = "noted"
filter = "amount % 2 = 0"
select = ["*", "amount * bid AS value"]
"""
BATCH = """
[steps.sums]
from = "some"
by = ["symbol", "year"]
agg = { n = "count(*)", total = "sum(amount)", most = "max(value)" }

[[checks]]
from = "quoted"
min_match_rate = 0.4
unique = "ts"
not_null = "symbol"
rows = { min = 200, max = 200 }

[[checks]]
from = "owned"
min_match_rate = 0.4

[sinks.sums]
from = "sums"
path = "sums"
"""
SINK = """
[sinks.some]
from = "some"
path = "some"
partition_by = "symbol"
"""


def write_sources(folder: Path) -> None:
    generator = np.random.default_rng(3)
    trades = pa.table(
        {
            "ts": pa.array(range(200), pa.int64()),
            "symbol": pa.array(generator.choice(["a", "b"], 200)),
            "owner": generator.integers(0, 6, 200),
            "amount": generator.integers(0, 100, 200),
        }
    )
    for year in (2025, 2026):
        place = folder / "trades" / f"year={year}"
        place.mkdir(parents=True)
        pq.write_table(trades.slice(100 * (year - 2025), 100), place / "part.parquet")
    quotes = {"ts": generator.integers(0, 200, 50), "symbol": ["a"] * 50, "bid": generator.random(50)}
    pq.write_table(pa.table(quotes), folder / "quotes.parquet")
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n3,\n4,Dan\n")
    (folder / "notes.json").write_text("".join(f'{{"ts": {ts}, "words": {ts % 7}}}\n' for ts in range(0, 200, 3)))


def pipeline_of(folder: Path, text: str) -> jn.Pipeline:
    (folder / "juncture.toml").write_text(text)
    return jn.Pipeline.from_toml(folder / "juncture.toml")


def rows_in(place: Path) -> pa.Table:
    table = ds.dataset(place, format="parquet", partitioning="hive").to_table()
    table = table.select(sorted(table.column_names))
    return table.sort_by([(name, "ascending") for name in table.column_names])


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder in which the pipeline has run in this process."""
    folder = tmp_path_factory.mktemp("here")
    write_sources(folder)
    report = pipeline_of(folder, PIPELINE + BATCH + SINK).run()
    assert [check.passed for check in report.checks] == [True] * 5
    return folder


def test_the_same_rows_as_in_this_process(spark, here, tmp_path):
    write_sources(tmp_path)
    report = pipeline_of(tmp_path, PIPELINE + BATCH + SINK).run(spark)
    assert all(check.passed for check in report.checks)
    assert [each.rows for each in report.sinks] == [4, rows_in(here / "some").num_rows]
    for name in ("some", "sums"):
        assert rows_in(tmp_path / name).to_pydict() == rows_in(here / name).to_pydict()
    assert {check.found for check in report.checks} == {
        check.found for check in pipeline_of(tmp_path, PIPELINE + BATCH + SINK).run(force=True).checks
    }
    unchanged = pipeline_of(tmp_path, PIPELINE + BATCH + SINK)
    assert not any(each.unchanged for each in unchanged.run(spark, only=["sums"]).sinks)
    assert all(each.unchanged for each in unchanged.run(lambda: pytest.fail("started"), only=["sums"]).sinks)


def test_the_same_rows_as_a_stream(spark, here, tmp_path):
    write_sources(tmp_path)
    later = tmp_path / "trades" / "year=2026" / "part.parquet"
    kept = later.rename(tmp_path / "later.parquet")
    pipeline = pipeline_of(tmp_path, PIPELINE + SINK)
    # What a folder stands for is known of its files.
    for turn in range(2):
        if turn:
            kept.rename(later)
        finished(pipeline.file, pipeline.stream(spark), Silent())
    given = pq.ParquetDataset(str(tmp_path / "some")).read()
    assert given.num_rows == rows_in(here / "some").num_rows
    assert sorted(given["ts"].to_pylist()) == rows_in(here / "some")["ts"].sort().to_pylist()
    assert pc.sum(given["value"]).as_py() == pytest.approx(pc.sum(rows_in(here / "some")["value"]).as_py())


class Silent:
    def phase(self, name, done, total):
        pass


def test_a_stream_needs_a_source_that_is_one(spark, tmp_path):
    write_sources(tmp_path)
    text = PIPELINE.replace('order = { on = "ts" }', "") + SINK
    with pytest.raises(PlanError, match="has no streaming source"):
        pipeline_of(tmp_path, text).stream(spark)


def test_two_streams(hosting, tmp_path):
    write_sources(tmp_path)
    near = '[steps.near]\njoin = "range"\nleft = "trades"\nright = "trades"\non = "ts"\nlower = -1\nupper = 0\n'
    sink = '[sinks.near]\nfrom = "near"\npath = "near"\n'
    text = PIPELINE[: PIPELINE.index("[sources.quotes]")] + near
    with pytest.raises(PlanError, match="algorithm='bins' joins tables, but both sides are streams"):
        pipeline_of(tmp_path, f'{text}algorithm = "bins"\n{sink}').stream(hosting)
    pipeline = pipeline_of(tmp_path, text + sink)
    finished(pipeline.file, pipeline.stream(hosting), Silent())
    # The last pair is kept until a later row arrives.
    assert rows_in(tmp_path / "near").num_rows >= 2 * 200 - 3


def test_a_step_is_a_lazy_dataframe(spark, here):
    pipeline = pipeline_of(here, PIPELINE)
    frame = pipeline.step("some", spark)
    assert type(frame).__name__ == "DataFrame"
    assert (
        frame.toArrow()
        .select(["ts", "value"])
        .sort_by("ts")
        .equals(pipeline.step("some").select(["ts", "value"]).sort_by("ts"))
    )
    assert "Equality join on Spark" in pipeline.explain(spark=spark)


def test_a_query_that_fails_leaves_nothing(spark, tmp_path):
    write_sources(tmp_path)
    text = PIPELINE.replace("amount % 2 = 0", "assert_true(amount < 50) IS NULL") + SINK
    before = sorted(path.name for path in tmp_path.iterdir())
    check = '[[checks]]\nfrom = "some"\nrows = { min = 1 }\n'
    for failing in (text, text + check):
        with pytest.raises(DataError, match=r"The step '\w+' failed on Spark: .*not true"):
            pipeline_of(tmp_path, failing).run(spark)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["juncture.toml", *before])


def test_text_of_another_type_is_an_error(spark, tmp_path):
    (tmp_path / "late.csv").write_text("id,x\n" + "1,2\n" * 300_000 + "oops,3\n")
    text = '[sources.late]\npath = "late.csv"\n[sinks.out]\nfrom = "late"\npath = "out"\n'
    with pytest.raises(DataError, match=r"(?i)malformed|failed_read|oops"):
        pipeline_of(tmp_path, text).run(spark)


def test_a_header_alone_is_an_empty_table_of_any_type(spark, tmp_path):
    (tmp_path / "trades.csv").write_text("ts,symbol\n1,a\n2,b\n")
    (tmp_path / "quotes.csv").write_text("ts,symbol,bid\n")
    text = (
        '[sources.trades]\npath = "trades.csv"\n[sources.quotes]\npath = "quotes.csv"\n'
        '[steps.quoted]\njoin = "asof"\nleft = "trades"\nright = "quotes"\non = "ts"\nby = "symbol"\n'
        '[sinks.out]\nfrom = "quoted"\npath = "out"\n[sinks.empty]\nfrom = "quotes"\npath = "empty"\n'
    )
    for session in (None, spark):
        pipeline_of(tmp_path, text).run(session, force=True)
        assert rows_in(tmp_path / "out").to_pydict() == {"bid": [None] * 2, "symbol": ["a", "b"], "ts": [1, 2]}
        assert rows_in(tmp_path / "empty").to_pydict() == {"bid": [], "symbol": [], "ts": []}
        for name in ("out", "empty"):
            shutil.rmtree(tmp_path / name)


def test_a_format_without_its_package_says_so(spark, tmp_path):
    text = '[sources.lake]\npath = "lake"\nformat = "delta"\n[sinks.out]\nfrom = "lake"\npath = "out"\n'
    with pytest.raises((PlanError, DataError), match=r"The format delta of .* is not available in Spark"):
        pipeline_of(tmp_path, text).run(spark)


EXPRESSIONS = {
    "sum": "a + b",
    "product": "a * 2",
    "ratio": "a / b",
    "whole": "b div a",
    "rest": "b % a",
    "rounded": "round(x, 1)",
    "case": "CASE WHEN a > 1 THEN 'many' ELSE s END",
    "if": "if(a > 1, a, 0)",
    "missing": "coalesce(s, 'none')",
    "same": "s <=> NULL",
    "upper": "upper(s)",
    "joined": "concat(s, '-', s)",
    "length": "length(s)",
    "part": "substring(s, 2, 2)",
    "like": "s LIKE 'a%'",
    "among": "a IN (1, 3)",
    "between": "x BETWEEN 0 AND 2",
    "text": "CAST(a AS STRING)",
    "number": "CAST(x AS BIGINT)",
    "year": "year(d)",
    "month": "month(at)",
    "hour": "hour(at)",
    "day": "date_trunc('day', at)",
    "later": "at + INTERVAL 90 MINUTES",
    "date": "to_date(at)",
    "week": "date_add(d, 7)",
    "month_later": "add_months(d, 1)",
    "year_of_week": "year(date_add(d, 7)) + 1",
    "days": "datediff(d, DATE '2026-01-01')",
    "absolute": "abs(a - 3)",
    "greatest": "greatest(a, 2)",
}
AGGREGATES = {
    "n": "count(*)",
    "values": "count(s)",
    "different": "count(DISTINCT a)",
    "sum": "sum(a)",
    "floats": "sum(x)",
    "mean": "avg(a)",
    "least": "min(s)",
    "greatest": "max(at)",
    "spread": "stddev(x)",
    "some": "count_if(a > 1)",
}
COLUMNS = pa.table(
    {
        "a": pa.array([1, 2, 3, None], pa.int32()),
        "b": pa.array([5, 7, None, 1], pa.int64()),
        "x": [0.25, 1.5, 2.75, 9.0],
        "s": ["abc", None, "b", "äö"],
        "d": pa.array([20_000, 20_454, 20_500, None], pa.date32()),
        "at": pa.array([0, 10**15, 1_767_225_599_999_999, None], pa.timestamp("us", "UTC")),
    }
)


def test_expressions_mean_the_same(spark, tmp_path):
    pq.write_table(COLUMNS, tmp_path / "rows.parquet")
    text = '[sources.rows]\npath = "rows.parquet"\n[steps.each]\nfrom = "rows"\n[steps.each.select]\n'
    text += "".join(f'"{name}" = "{sql}"\n' for name, sql in EXPRESSIONS.items())
    text += '[steps.all]\nfrom = "rows"\n[steps.all.agg]\n'
    text += "".join(f'"{name}" = "{sql}"\n' for name, sql in AGGREGATES.items())
    pipeline = pipeline_of(tmp_path, text)
    for step in ("each", "all"):
        ours, theirs = pipeline.step(step), pipeline.step(step, spark).toArrow()
        for name in ours.column_names:
            assert (name, ours[name].to_pylist()) == (name, theirs[name].to_pylist())
            assert (name, ours[name].type) == (name, theirs[name].type)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from juncture.cli.main import main; main()", "run", *arguments]
    with no_session():
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=dict(os.environ), timeout=500)


@pytest.mark.nightly
def test_the_example_gives_the_same_rows_everywhere(tmp_path):
    write_example(tmp_path)
    text = (tmp_path / "juncture.toml").read_text()
    settings = '[spark]\n"spark.executor.memory" = "600m"\n"spark.sql.shuffle.partitions" = "4"\n'
    settings += f'"spark.executor.extraJavaOptions" = "{SHORT_LIVED}"\n'
    with standalone_cluster(tmp_path / "cluster", workers=2, memory="700m") as cluster:
        ways = {
            "local": ["--engine", "local"],
            "spark": [],
            "stream": ["--stream"],
            "cluster": ["--master", cluster.url],
        }
        for name, arguments in ways.items():
            (tmp_path / "juncture.toml").write_text(text.replace("output/valued", f"output/{name}") + settings)
            done = run(tmp_path, *arguments)
            assert done.returncode == 0, done.stderr
    expected = rows_in(tmp_path / "output" / "local")
    assert expected.num_rows > 1_000
    for name in ways:
        assert rows_in(tmp_path / "output" / name).to_pydict() == expected.to_pydict()
