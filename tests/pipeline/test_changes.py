"""Pipelines that are kept up to date: what has been given is, summed, what a batch run of the tables writes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture import PipelineError
from juncture.cli.main import app
from juncture.pipeline.streaming import STREAM_SETTINGS
from support.change_streams import LEFT, RIGHT, epochs, said, summed
from support.streaming import write_files
from support.tables import canonical_rows

PIPELINE = """
[sources.orders]
path = "orders.parquet"
changes = "changes/orders"

[sources.rates]
path = "rates.parquet"
changes = "changes/rates"

[sources.regions]
path = "regions.parquet"

[steps.some]
from = "orders"
filter = "n < 11"
select = ["k", "`on`", "far"]

[steps.rated]
join = "asof"
left = "some"
right = "rates"
on = "on"
by = "k"

[steps.again]
join = "equi"
left = "rated"
right = "rates"
on = "k"
how = "left"
suffix = "_again"

[steps.placed]
join = "equi"
left = "again"
right = "regions"
on = "k"

[steps.shown]
from = "placed"
[steps.shown.select]
k = "k"
twice = "far * 2"
m = "m"
region = "region"

[sinks.shown]
from = "shown"
path = "shown"
changes = "shown-changes"
"""


QUERIES = """
[steps.sums]
from = "orders"
filter = "far > 0"
by = "k"
agg = { n = "count(*)", total = "sum(far)" }

[steps.both]
from = ["some", "rates"]
sql = 'SELECT k, far FROM "some" UNION ALL SELECT k, count(*) FROM rates GROUP BY k'

[sinks.sums]
from = "sums"
path = "sums"
changes = "sums-changes"

[sinks.both]
from = "both"
path = "both"
changes = "both-changes"
"""


def write_tables(folder: Path, tables: dict[str, pa.Table]) -> None:
    regions = pa.table({"k": pa.array([0, 1], pa.int8()), "region": ["north", "south"]})
    for name, table in {**tables, "regions": regions}.items():
        pq.write_table(table, folder / f"{name}.parquet")


def write_pipeline(folder: Path, text: str) -> jn.Pipeline:
    (folder / "juncture.toml").write_text(text)
    return jn.Pipeline.from_toml(folder / "juncture.toml")


@pytest.fixture
def folder(tmp_path):
    """A folder with tables and their first changes."""
    chance = random.Random(2)
    (tmp_path / "changes").mkdir()
    for name, schema, form in (("orders", LEFT, "change_type"), ("rates", RIGHT, "weight")):
        changes, tables = epochs(schema, chance, 1)
        write_files([said(changes[0], form)], tmp_path / "changes" / name)
        write_tables(tmp_path, {name: tables[0]})
    return tmp_path


@pytest.mark.in_turn
def test_what_changes_adds_up_to_a_batch_run(spark, tmp_path, request):
    """In a nightly run what comes later is taken, too; a query of one join is started again in each."""
    chance, made = random.Random(12), {}
    (tmp_path / "changes").mkdir()
    for name, schema in (("orders", LEFT), ("rates", RIGHT)):
        changes, tables = epochs(schema, chance, 2)
        made[name] = [said(each, "change_type") for each in changes] if name == "orders" else changes, tables
    before = {name: spark.conf.get(name, None) for name in STREAM_SETTINGS}
    for name, value in {**STREAM_SETTINGS, "spark.sql.shuffle.partitions": "2"}.items():
        spark.conf.set(name, value)
    try:
        for turn in range(2 if request.config.getoption("--all") else 1):
            for name, (changes, _) in made.items():
                write_files([changes[turn]], tmp_path / "changes" / name)
            write_tables(tmp_path, {name: tables[turn] for name, (_, tables) in made.items()})
            pipeline = write_pipeline(tmp_path, PIPELINE + QUERIES)
            for query in pipeline.changes(spark).values():
                query.awaitTermination()
            for sink, (given, wanted) in sinks_of(tmp_path, pipeline).items():
                assert given == wanted, sink
                assert wanted
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


SUMS = """
[steps.sums]
from = "rated"
filter = "far > 0"
by = "k"
agg = { n = "count(*)", total = "sum(far)", most = "max(m)", kinds = "count(distinct m)" }

[sinks.sums]
from = "sums"
path = "sums"
changes = "sums-changes"
"""
STEPS = {
    "as-of join": PIPELINE,
    "full as-of join": PIPELINE.replace('on = "on"\nby = "k"', 'on = "on"\nby = "k"\nhow = "full"'),
    "range join": PIPELINE.replace('join = "asof"', 'join = "range"').replace(
        'by = "k"', 'by = "k"\nlower = -2\nupper = 1'
    ),
    "matches as aggregates": PIPELINE.replace(
        'on = "k"\nhow = "left"\nsuffix = "_again"', 'on = "k"\nhow = "left"\nagg = { m = "count" }'
    ),
    "groups of a shared join": PIPELINE + SUMS,
    "one group": PIPELINE + SUMS.replace('by = "k"\n', ""),
    "groups of groups": PIPELINE
    + SUMS
    + '[steps.sizes]\nfrom = "sums"\nby = "n"\nagg = { k = "max(k)" }\n'
    + '[sinks.sizes]\nfrom = "sizes"\npath = "sizes"\nchanges = "sizes-changes"\n',
    "a union in SQL": PIPELINE
    + """
[steps.both]
from = ["some", "rated", "regions"]
sql = '''
SELECT k, far FROM "some" UNION ALL SELECT k, far + 1 FROM "some" UNION ALL
SELECT r.k, n.k FROM rated AS r JOIN regions AS n USING (k)
'''
[sinks.both]
from = "both"
path = "both"
changes = "both-changes"
""",
    "groups in SQL": PIPELINE
    + """
[steps.sizes]
from = "rated"
sql = "SELECT k, count(*) AS n, sum(far) AS far FROM rated WHERE far > 0 GROUP BY ALL"
[sinks.sizes]
from = "sizes"
path = "sizes"
changes = "sizes-changes"
""",
    "distinct rows": PIPELINE.replace('filter = "n < 11"', 'filter = "n < 11"\ndistinct = true'),
    "expressions of DuckDB": PIPELINE.replace(
        'twice = "far * 2"', "twice = \"concat(lpad(cast(far as string), 3, '0'), repeat(m, 2))\""
    ),
    "a table on the left": PIPELINE.replace(
        'left = "again"\nright = "regions"\non = "k"', 'left = "regions"\nright = "again"\non = "k"\nhow = "left"'
    ),
    "unmatched rows of a table": PIPELINE.replace(
        'right = "regions"\non = "k"', 'right = "regions"\non = "k"\nhow = "full"'
    ),
    "a source as it is": PIPELINE + '[sinks.rates]\nfrom = "rates"\npath = "rates"\nchanges = "rates-changes"\n',
}


def sinks_of(folder: Path, pipeline: jn.Pipeline) -> dict[str, tuple[Counter, Counter]]:
    """Return the rows that the changes of each sink make, and those of a batch run of the tables."""
    found = {}
    for name, sink in pipeline.file.sinks.items():
        files = sorted((folder / f"{name}-changes").glob("*.parquet"))
        wanted = pipeline.step(sink.from_)
        given = summed(pa.concat_tables(pq.read_table(file) for file in files))
        found[name] = given, Counter(map(tuple, canonical_rows(wanted)))
    return found


@pytest.mark.parametrize("case", STEPS)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.nightly if seed else []) for seed in range(3)])
def test_what_changes_in_this_process_adds_up_to_a_batch_run(tmp_path, case, seed):
    """After each epoch, whether the pipeline stays open or is opened again."""
    chance, changes, rows = random.Random(seed), {}, {}
    (tmp_path / "changes").mkdir()
    for name, schema in (("orders", LEFT), ("rates", RIGHT)):
        made, rows[name] = epochs(schema, chance, 5)
        changes[name] = [said(each, "change_type") for each in made] if name == "orders" else made
        (tmp_path / "changes" / name).mkdir()
        # So that there is a schema before anything has come.
        pq.write_table(changes[name][0].slice(0, 0), tmp_path / "changes" / name / "000.parquet")
    write_tables(tmp_path, {name: tables[0] for name, tables in rows.items()})
    turn = 0
    while turn < 5:
        with write_pipeline(tmp_path, STEPS[case]).follow() as followers:
            for _ in range(chance.randint(1, 2)):
                if turn < 5:
                    for name, each in changes.items():
                        pq.write_table(each[turn], tmp_path / "changes" / name / f"{turn + 1:03}.parquet")
                    write_tables(tmp_path, {name: tables[turn] for name, tables in rows.items()})
                    for follower in dict.fromkeys(followers.values()):
                        while follower.step(0) is not None:
                            pass
                    turn += 1
                    for given, wanted in sinks_of(tmp_path, write_pipeline(tmp_path, STEPS[case])).values():
                        assert given == wanted
                        assert turn < 5 or wanted


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT fa FROM rates", "The query does not fit the tables of from: Referenced column"),
        ("SELECT 1 FROM orders", "Table with name orders does not exist"),
        ("CREATE TABLE x (k INT)", "sql= is not one query"),
        ("SELECT k FROM rates USING SAMPLE 1 ROWS", "not supported"),
    ],
)
def test_sql_that_cannot_be_maintained_is_said_with_its_line(folder, sql, message):
    text = f'{PIPELINE}[steps.asked]\nfrom = "rates"\nsql = "{sql}"\n'
    text += '[sinks.asked]\nfrom = "asked"\npath = "asked"\nchanges = "asked-changes"\n'
    with pytest.raises(PipelineError) as caught:
        write_pipeline(folder, text).check(mode="changes")
    assert [(each.where, message in each.message) for each in caught.value.problems] in (
        [("steps.asked.sql", True)],
        [("steps.asked", True)],
    ), caught.value


def test_sinks_share_the_steps_that_they_have_in_common(folder):
    with write_pipeline(folder, PIPELINE + SUMS).follow(memory="64MB") as followers:
        assert followers["shown"] is followers["sums"]
        done = followers["shown"].step(0)
        assert set(done.sink_rows) == {"shown", "sums"}
    assert [path.name for path in (folder / ".juncture" / "maintained").iterdir()] == ["shown"]
    apart = STEPS["a source as it is"]
    with write_pipeline(folder, apart.replace("shown-changes", "shown-2")).follow(only=["rates"]) as followers:
        assert list(followers) == ["rates"]


def test_a_pipeline_kept_up_to_date_from_the_command_line(folder, monkeypatch):
    write_pipeline(folder, PIPELINE)
    monkeypatch.chdir(folder)
    for expected in ("shown-changes", "shown-changes"):
        done = CliRunner().invoke(app, ["-q", "run", "--changes", "--engine", "local", "--json"])
        assert done.exit_code == 0, done.output
        assert expected in done.output
    assert len(list((folder / "shown-changes").glob("*.parquet"))) == 2
    write_pipeline(folder, PIPELINE.replace("n < 11", "n < 9"))
    done = CliRunner().invoke(app, ["-q", "run", "--changes", "--engine", "local"])
    assert done.exit_code == 2
    assert "belongs to another pipeline: its steps is" in " ".join(done.output.split())


def test_a_pipeline_that_can_be_kept_up_to_date_is_right(folder, monkeypatch):
    write_pipeline(folder, PIPELINE)
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["check", "--changes"])
    assert done.exit_code == 0, done.output


REFUSED = {
    "no sink": ('changes = "shown-changes"', "", "No sink has changes"),
    "nothing that changes": ('from = "shown"', 'from = "regions"', "No source of 'regions' has changes"),
    "a table in SQL": (
        'from = "placed"\n[steps.shown.select]\nk = "k"\ntwice = "far * 2"\nm = "m"\nregion = "region"\n',
        'from = ["placed", "regions"]\nsql = "SELECT k FROM placed UNION ALL SELECT k FROM regions"\n',
        "'regions' has no changes, but Spark maintains sql= over changes only",
    ),
    "a table on the left": (
        'left = "again"\nright = "regions"\non = "k"',
        'left = "regions"\nright = "again"\non = "k"\nhow = "left"',
        "'regions' has no changes, but changes of 'again'",
    ),
    "kept right rows": ('right = "regions"\non = "k"', 'right = "regions"\non = "k"\nhow = "full"', "how='full' keeps"),
    "an algorithm": ('by = "k"', 'by = "k"\nalgorithm = "broadcast"', "does not apply to change streams"),
    "no folder": ('changes = "changes/rates"', 'changes = "nowhere"', "nowhere"),
    "other columns": ('changes = "changes/rates"', 'changes = "changes/orders"', "has other columns than the table"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_up_to_date_is_said_with_its_line(folder, case):
    old, new, message = REFUSED[case]
    text = PIPELINE.replace(old, new)
    pipeline = write_pipeline(folder, text)
    with pytest.raises(PipelineError) as caught:
        pipeline.check(engine="spark", mode="changes")
    found = [each for each in caught.value.problems if message in each.message]
    assert found, caught.value
    assert (found[0].line > 1) == (case != "no sink")


def test_rows_before_and_after_are_joined_first(folder):
    changes, _ = epochs(LEFT, random.Random(3), 1)
    write_files([said(changes[0], "debezium")], folder / "changes" / "whole")
    pipeline = write_pipeline(folder, PIPELINE.replace("changes/orders", "changes/whole"))
    with pytest.raises(PipelineError, match="Join them first"):
        pipeline.check(engine="spark", mode="changes")
