"""A pipeline of one file over tables of PostgreSQL: read as they are, and kept up to date into another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture import PipelineError
from support.streaming import PARTITIONS, ROCKS, STORE

PIPELINE = """
[sources.sales]
format = "postgres"
table = "sales"
options = {{ dsn = "{dsn}" }}

[sources.rates]
format = "postgres"
table = "rates"
options = {{ dsn = "{dsn}" }}

[steps.rated]
join = "asof"
left = "sales"
right = "rates"
on = "at"
how = "left"

[steps.shown]
from = "rated"
[steps.shown.select]
id = "id"
amount = "price * rate"

[sinks.shown]
from = "shown"
{sink}
"""
TABLE = 'format = "postgres"\ntable = "shown"\nkey = "id"\noptions = {{ dsn = "{dsn}" }}'
TABLES = """
CREATE TABLE sales (id int PRIMARY KEY, at int, price double precision);
CREATE TABLE rates (at int, rate double precision);
ALTER TABLE sales REPLICA IDENTITY FULL;
ALTER TABLE rates REPLICA IDENTITY FULL;
INSERT INTO sales VALUES (1, 10, 2), (2, 20, 3);
INSERT INTO rates VALUES (5, 2), (15, 10);
"""
CHANGES = "INSERT INTO rates VALUES (8, 4); DELETE FROM sales WHERE id = 2; INSERT INTO sales VALUES (3, 30, 1)"
WANTED = """
SELECT id, price * (SELECT rate FROM rates WHERE rates.at <= sales.at ORDER BY rates.at DESC LIMIT 1) FROM sales
ORDER BY id
"""


def written(folder, database, sink=TABLE):
    text = PIPELINE.format(dsn=database.dsn, sink=sink.format(dsn=database.dsn))
    (folder / "juncture.toml").write_text(text)
    return jn.Pipeline.from_toml(folder / "juncture.toml")


def taken(pipeline):
    with pipeline.follow() as followers:
        followers["shown"].start()
        while followers["shown"].step(0.5) is not None:
            pass


def test_a_table_is_kept_up_to_date_from_others(database, tmp_path):
    database.connection.execute(TABLES)
    pipeline = written(tmp_path, database)
    for changes in (None, CHANGES, "TRUNCATE rates"):
        if changes:
            database.connection.execute(changes)
        taken(pipeline)
        shown = database.connection.execute("SELECT * FROM shown ORDER BY id").fetchall()
        assert shown == database.connection.execute(WANTED).fetchall()
    assert shown == [(1, None), (3, None)]


def test_tables_are_read_as_they_are(database, tmp_path):
    database.connection.execute(TABLES)
    rows = written(tmp_path, database, 'path = "shown.parquet"').step("shown").to_pylist()
    assert rows == [{"id": 1, "amount": 4.0}, {"id": 2, "amount": 30.0}]


def test_the_command_line_follows_until_nothing_is_left(database, tmp_path):
    database.connection.execute(TABLES)
    written(tmp_path, database)
    command = [sys.executable, "-m", "juncture", "-q", "run", "--changes", "--engine", "local"]
    done = subprocess.run(
        command, cwd=tmp_path, env=dict(os.environ), check=True, capture_output=True, text=True, timeout=60
    )
    assert "shown" in done.stdout
    assert len(database.connection.execute("SELECT * FROM shown").fetchall()) == 2


FOLDERS = """
path = "shown"
changes = "shown-changes"
[steps.cheap]
from = "sales"
filter = "price < 3"
[sinks.cheap]
from = "cheap"
path = "cheap"
changes = "cheap-changes"
"""


@contextmanager
def setting(spark, settings):
    """Set what Spark is told of streams while the block runs, as the command line does."""
    earlier = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in earlier.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def summed(folder):
    """Return the rows that the changes in a folder add up to."""
    found = Counter()
    for row in pq.read_table(folder).to_pylist():
        weight = row.pop("_weight")
        found[tuple(row.values())] += weight
    return sorted((row for row, count in found.items() for _ in range(count)))


@pytest.mark.in_turn
@pytest.mark.parametrize("kept", ["cheap", pytest.param("shown", marks=pytest.mark.nightly)])
def test_spark_keeps_folders_up_to_date(spark, database, tmp_path, kept):
    database.connection.execute(TABLES)
    pipeline = written(tmp_path, database, FOLDERS)
    for changes in (None, CHANGES):
        if changes:
            database.connection.execute(changes)
        with setting(spark, {STORE: ROCKS, PARTITIONS: "1"}):
            for query in pipeline.changes(spark, only=[kept]).values():
                query.awaitTermination()
        # Opened anew, since a step's rows are those of when it was asked for first.
        pipeline = jn.Pipeline.from_toml(pipeline.path)
        wanted = [tuple(row.values()) for row in pipeline.step(kept).to_pylist()]
        assert summed(tmp_path / f"{kept}-changes") == sorted(wanted)
    assert pipeline.step(kept, spark).count() == len(wanted)
    slots = database.connection.execute("SELECT slot_name FROM pg_replication_slots ORDER BY 1").fetchall()
    sources = ("sales",) if kept == "cheap" else ("rates", "sales")
    assert [name for (name,) in slots] == [f"juncture_{kept}_{source}" for source in sources]


def test_a_table_that_a_query_would_read_twice(database, tmp_path):
    database.connection.execute(TABLES)
    pipeline = written(tmp_path, database, FOLDERS)
    pipeline.check(engine="spark", mode="changes")
    pipeline.path.write_text(pipeline.path.read_text().replace('right = "rates"', 'right = "sales"'))
    with pytest.raises(PipelineError, match="'sales' feeds 'shown' through several steps") as caught:
        jn.Pipeline.from_toml(pipeline.path).check(engine="spark", mode="changes")
    assert all(problem.line for problem in caught.value.problems)


REFUSED = {
    "no key": (TABLE.replace('key = "id"\n', ""), "needs key"),
    "another key": (TABLE.replace('"id"', '"price"'), "price"),
    "no dsn": (TABLE.replace("dsn = ", "slot = "), "dsn"),
    "an option": (TABLE.replace("{{ dsn", "{{ slots = 1, dsn"), "'slots'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sink_that_cannot_be_written(database, tmp_path, case):
    database.connection.execute(TABLES)
    sink, message = REFUSED[case]
    with pytest.raises(PipelineError, match=message) as caught:
        written(tmp_path, database, sink).check(mode="changes")
    assert all(problem.line for problem in caught.value.problems)
    assert "password" not in str(caught.value)


def test_what_only_this_process_follows(database, tmp_path):
    database.connection.execute(TABLES)
    pipeline = written(tmp_path, database)
    with pytest.raises(PipelineError, match="--engine local"):
        pipeline.check(engine="spark", mode="changes")
    with pytest.raises(PipelineError, match="is written with --changes only"):
        pipeline.check()
    mixed = pipeline.path.read_text().replace(database.dsn, "host=/nowhere", 1)
    (tmp_path / "juncture.toml").write_text(mixed)
    with pytest.raises(PipelineError, match="neither in one database"):
        jn.Pipeline.from_toml(tmp_path / "juncture.toml").check(mode="changes")
