"""Views of streaming DataFrames of changes: after each micro-batch, what has been given is DuckDB's answer."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

import juncture as jn
from support.change_streams import LEFT, RIGHT, epochs, said, summed
from support.streaming import read_stream, run, take_back, write_files
from support.tables import canonical_rows

QUERY = """
    SELECT l.k, r.m, count(*) AS pairs, sum(l."on"::DECIMAL(9, 2)) AS total,
        rank() OVER (PARTITION BY r.m ORDER BY count(*)) AS place
    FROM l JOIN r ON l.k = r.k AND l."on" <> r."end"
    GROUP BY l.k, r.m
"""


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("forms", "output"), [(("weight", "debezium"), "change_type"), (("change_type", "weight"), "debezium")]
)
def test_two_tables_that_change(hosting, tmp_path, forms, output):
    chance = random.Random(7)
    schemas = {"l": LEFT, "r": RIGHT}
    changes, tables = {}, {}
    for (name, schema), form in zip(schemas.items(), forms, strict=True):
        parts, tables[name] = epochs(schema, chance, 3)
        changes[name] = [said(each, form) for each in parts]
    # What is left for later comes to a query that is started again, whose last micro-batch was not committed.
    for some in (slice(0, 2), slice(2, 3)):
        if some.start:
            take_back(tmp_path)
        for name, parts in changes.items():
            write_files(parts[some], tmp_path / name)
        view = jn.view(
            None, QUERY, sources={name: read_stream(hosting, tmp_path / name) for name in changes}, output=output
        )
        ran = run(view, tmp_path)
        with duckdb.connect() as connection:
            for name, each in tables.items():
                connection.register(name, each[some.stop - 1])
            wanted = connection.sql(QUERY).to_arrow_table()
        assert summed(ran.answer) == Counter(canonical_rows(wanted))
    assert wanted.num_rows > 1


@pytest.mark.in_turn
def test_watermarks_are_orders(hosting, tmp_path):
    schema = pa.schema({"ts": pa.timestamp("us", "UTC"), "user": pa.int64()})

    def clicks(*minutes: int) -> pa.Table:
        times = [datetime(2024, 1, 1, 9) + timedelta(minutes=each) for each in minutes]
        return pa.table({"ts": times, "user": [1] * len(times)}, schema)

    write_files([clicks(*range(50)), clicks(50, 55), clicks(1)], tmp_path / "clicks")
    frame = read_stream(hosting, tmp_path / "clicks").withWatermark("ts", "10 minutes")
    sql = "SELECT time_bucket(INTERVAL 5 MINUTE, ts) AS start, count(*) AS clicks FROM clicks GROUP BY ALL"
    view = jn.view(None, sql, sources={"clicks": frame}, final_rows="forget")
    answer = run(view, tmp_path).answer
    assert sorted(row[-1] for row in summed(answer)) == [1] + [1] + [5] * 10
    assert view.columns == ["start", "clicks", "_weight"]


@pytest.mark.in_turn
def test_bad_arguments(hosting, tmp_path):
    write_files([pa.table({"k": [1]})], tmp_path / "t")
    stream, table = read_stream(hosting, tmp_path / "t"), hosting.range(1)
    with pytest.raises(jn.PlanError, match="Source 'u' is not a streaming DataFrame"):
        jn.view(None, "SELECT k FROM t", sources={"t": stream, "u": table})
    with pytest.raises(jn.PlanError, match="state='here' applies to"):
        jn.view("here", "SELECT k FROM t", sources={"t": stream})
    with pytest.raises(jn.SpecError, match="The query reads none of 't'"):
        jn.view(None, "SELECT 1 AS one", sources={"t": stream})
    with pytest.raises(jn.SchemaError, match="which Spark cannot represent exactly"):
        jn.view(None, "SELECT k::UBIGINT AS k FROM t", sources={"t": stream})
    with pytest.raises(jn.SpecError, match="output='rows'"):
        jn.view(None, "SELECT k FROM t", sources={"t": stream}, output="rows")
    failing = jn.view(None, "SELECT k::TEXT::DATE AS day FROM t", sources={"t": stream})
    with pytest.raises(Exception, match=r"Operator .* failed, and these changes were not applied"):
        run(failing, tmp_path)
