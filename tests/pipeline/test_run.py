"""Pipelines in this process: what they write, what they check, and what they leave alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture import PipelineError
from juncture.cli.main import app
from juncture.errors import DataError, SpecError
from juncture.pipeline.example import write_example
from support.files import write_short

TRADES = pa.table({"ts": [1, 5, 9], "symbol": ["a", "b", "a"], "amount": [10, 20, 30]})
QUOTES = pa.table({"ts": [0, 4, 8], "symbol": ["a", "a", "a"], "bid": [1.0, 2.0, 3.0]})
SOURCES = """
[sources]
trades = { path = "trades.parquet" }
quotes = { path = "quotes.parquet" }
"""
PRICED = """
[steps.priced]
join = "asof"
left = "trades"
right = "quotes"
on = "ts"
by = "symbol"
"""
SINK = """
[sinks.out]
from = "priced"
path = "out.parquet"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    pq.write_table(QUOTES, tmp_path / "quotes.parquet")
    return tmp_path


def pipeline_of(folder: Path, text: str, **parameters: object) -> jn.Pipeline:
    (folder / "juncture.toml").write_text(text)
    return jn.Pipeline.from_toml(folder / "juncture.toml", parameters)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_asof_join_of_two_files_into_one(folder):
    report = pipeline_of(folder, SOURCES + PRICED + SINK).run()
    expected = jn.join_asof(TRADES, QUOTES, on="ts", by="symbol")
    assert pq.read_table(folder / "out.parquet").equals(expected)
    assert [(each.name, each.rows, each.unchanged) for each in report.sinks] == [("out", 3, False)]
    assert names(folder) == [".juncture", "juncture.toml", "out.parquet", "quotes.parquet", "trades.parquet"]


def test_rows_may_be_ordered_by_several_columns(folder):
    pipeline_of(folder, SOURCES + PRICED.replace('on = "ts"\nby = "symbol"', 'on = ["symbol", "ts"]') + SINK).run()
    expected = jn.join_asof(TRADES, QUOTES, on=["symbol", "ts"])
    assert expected["bid"].to_pylist() == [1.0, 3.0, 3.0]
    assert pq.read_table(folder / "out.parquet").equals(expected)


def test_what_has_an_order_alone_is_not_stale_by_any_figure(folder):
    steps = PRICED.replace('on = "ts"\nby = "symbol"', 'on = ["symbol", "ts"]')
    text = SOURCES + steps + SINK + '[[checks]]\nfrom = "priced"\nmax_distance = 5\n'
    with pytest.raises(DataError, match="distance max at most 5, found on columns without distances"):
        pipeline_of(folder, text).run()


def test_what_is_unchanged_is_not_done_again(folder):
    text = SOURCES + PRICED + SINK
    pipeline_of(folder, text).run()
    before = (folder / "out.parquet").stat().st_mtime_ns
    assert pipeline_of(folder, text).run().sinks[0].unchanged
    assert (folder / "out.parquet").stat().st_mtime_ns == before
    assert not pipeline_of(folder, text).run(force=True).sinks[0].unchanged


@pytest.mark.parametrize("change", ["input", "spec", "output", "gone"])
def test_what_has_changed_is_done_again(folder, change):
    text = SOURCES + PRICED + SINK.replace("path", 'mode = "overwrite"\npath')
    pipeline_of(folder, text).run()
    if change == "input":
        pq.write_table(TRADES.slice(1), folder / "trades.parquet")
    elif change == "spec":
        text = text.replace('on = "ts"', 'on = "ts"\ntolerance = 1')
    elif change == "output":
        pq.write_table(TRADES, folder / "out.parquet")
    else:
        (folder / "out.parquet").unlink()
    assert not pipeline_of(folder, text).run().sinks[0].unchanged
    spec = {"tolerance": 1} if change == "spec" else {}
    left = TRADES.slice(1) if change == "input" else TRADES
    expected = jn.join_asof(left, QUOTES, on="ts", by="symbol", **spec)
    assert pq.read_table(folder / "out.parquet").equals(expected)


def test_a_step_that_fails_leaves_nothing_half_written(folder):
    twice = pa.concat_tables([QUOTES, QUOTES])
    pq.write_table(twice, folder / "quotes.parquet")
    before = names(folder)
    text = SOURCES + PRICED.replace('join = "asof"', 'join = "asof"\nties = "error"') + SINK
    with pytest.raises(DataError):
        pipeline_of(folder, text).run()
    assert names(folder) == ["juncture.toml", *before]


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_a_stream_adds_nothing_to_what_a_batch_run_wrote(folder, mode):
    text = (
        (SOURCES + PRICED + SINK)
        .replace("out.parquet", "out")
        .replace('path = "out"', f'path = "out"\nmode = "{mode}"')
    )
    text = text.replace('"trades.parquet" }', '"trades.parquet", order = { on = "ts" } }')
    pipeline = pipeline_of(folder, text)
    pipeline.check(engine="spark", mode="stream")
    pipeline.run()
    if mode == "append":
        pipeline.check(engine="spark", mode="stream")
        return
    with pytest.raises(PipelineError, match="contains rows that the stream has not written") as caught:
        pipeline.check(engine="spark", mode="stream")
    assert caught.value.problems[0].line > 1
    # What changes of its rows goes elsewhere.
    pipeline.check(engine="spark")


def test_a_check_is_for_the_engine_that_runs(folder):
    text = (SOURCES + PRICED + SINK).replace('"trades.parquet"', '"trades.parquet", format = "delta"')
    pipeline = pipeline_of(folder, text)
    assert pipeline.check(engine="spark")["trades"] is None
    assert pipeline.check(spark=lambda: pytest.fail("starts Spark"))["trades"] is None
    with pytest.raises(PipelineError):
        pipeline.check()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "locl"}, "Did you mean 'local'?"),
        ({"mode": "changed"}, "mode='changed' is unknown"),
        ({"mode": "stream"}, "mode='stream' needs Spark"),
        ({"spark": object(), "engine": "local"}, "exclude each other"),
    ],
)
def test_a_check_refuses_arguments(folder, arguments, message):
    with pytest.raises(jn.SpecError, match=re.escape(message)):
        pipeline_of(folder, SOURCES + PRICED + SINK).check(**arguments)


CHECKS = {
    'from = "priced"\nrows = { min = 4 }': "rows at least 4, found 3",
    'from = "priced"\nrows = { max = 2 }': "rows at most 2, found 3",
    'from = "trades"\nunique = "symbol"': "symbol unique, found 1 values more than once",
    'from = "priced"\nnot_null = ["ts", "bid"]': "bid is never null, found 1 nulls",
    'from = "priced"\nmin_match_rate = 0.9': "at least 90.00% matched, found 66.67%",
    'from = "priced"\nmax_distance = { p50 = 1, max = 0.5 }': "distance max at most 0.5, found 1",
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_that_fails_keeps_everything_from_being_written(folder, check):
    text = SOURCES + PRICED + SINK + f"[[checks]]\n{check}\n"
    with pytest.raises(DataError, match="Nothing was written") as caught:
        pipeline_of(folder, text).run()
    assert CHECKS[check] in str(caught.value)
    assert "out.parquet" not in names(folder)
    report = pipeline_of(folder, text + 'on_failure = "warn"\n').run()
    assert [each.passed for each in report.checks].count(False) == 1
    assert "out.parquet" in names(folder)


@pytest.mark.parametrize("kind", ["equi", "range", "overlap", "where"])
def test_the_match_rate_of_every_kind_of_join(folder, kind):
    arguments = {
        "equi": 'on = "symbol"',
        "range": 'on = "ts"\nlower = -1\nupper = 0\nby = "symbol"\nagg = { bid = "mean" }',
        "overlap": 'left_interval = ["ts", "amount"]\nright_interval = ["ts", "ts"]\nclosed = "both"\nby = "symbol"',
        "where": "predicate = 'l.symbol = r.symbol AND l.ts > r.ts'",
    }
    text = SOURCES + f'[steps.joined]\njoin = "{kind}"\nleft = "trades"\nright = "quotes"\n{arguments[kind]}\n'
    text += SINK.replace("priced", "joined") + '[[checks]]\nfrom = "joined"\nmin_match_rate = 0.3\n'
    (check,) = pipeline_of(folder, text).run().checks
    assert check.found == {"overlap": "33.33%"}.get(kind, "66.67%")


def test_parameters_stand_in_text_and_for_values(folder):
    text = """[parameters]
least = 15
name = "b"
[sources.trades]
path = "trades.parquet"
[steps.some]
from = "trades"
filter = "amount >= ${least} AND symbol = '${name}' AND '$${x}' = '$${x}'"
"""
    assert pipeline_of(folder, text).step("some").to_pydict() == {"ts": [5], "symbol": ["b"], "amount": [20]}
    assert pipeline_of(folder, text, least="25", name="a").step("some")["ts"].to_pylist() == [9]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("filter = \"date(make_date(2026, 1, ts)) >= '${day}'\"", "invalid date"),
        ("select = ['amount * 4611686018427387904 * amount AS x']", "Overflow"),
        ("agg = { x = 'sum(amount * 200000000000000000)' }", "out of range"),
    ],
)
def test_an_expression_without_a_value_names_its_step(folder, monkeypatch, step, said):
    monkeypatch.chdir(folder)
    text = f'[parameters]\nday = "2026-01-02"\n{SOURCES}[steps.some]\nfrom = "trades"\n{step}\n'
    (folder / "juncture.toml").write_text(text + SINK.replace("priced", "some"))
    before = names(folder)
    done = CliRunner().invoke(app, ["run", "--engine", "local", "--set", "day=x"])
    assert done.exit_code == 2, done.output
    assert "Problem in the data" in done.stderr
    assert "The step 'some' cannot be computed: " in done.stderr
    assert said in done.stderr
    assert names(folder) == before


def test_a_source_that_cannot_be_read_by_a_step_is_named(folder):
    write_short(folder / "trades.parquet", ("ts",))
    text = SOURCES + '[steps.some]\nfrom = "trades"\nfilter = "ts > 0"\n' + SINK.replace("priced", "some")
    with pytest.raises(DataError, match=r"Row group 0 of the Parquet file \S*trades\.parquet' cannot be read"):
        pipeline_of(folder, text).run()


def test_functions_that_only_spark_has(folder):
    text = SOURCES + '[steps.some]\nfrom = "trades"\nfilter = "luhn_check(symbol)"\n'
    pipeline = pipeline_of(folder, text)
    assert pipeline.check(engine="spark")["some"] is None
    with pytest.raises(SpecError, match=r"juncture.toml:7: steps.some.filter: .*not available in this process"):
        pipeline.check()


FORMATS = ["out.csv", "out.csv.gz", "out.tsv", "out.json", "out.arrow", "out.parquet", "out"]


@pytest.mark.parametrize("path", FORMATS)
def test_every_format_goes_out_and_comes_in_again(folder, path):
    text = SOURCES + f'[sinks.out]\nfrom = "trades"\npath = "{path}"\n'
    assert pipeline_of(folder, text).run().sinks[0].rows == 3
    back = pipeline_of(folder, f'[sources.back]\npath = "{path}"\n').step("back")
    assert back.to_pydict() == TRADES.to_pydict()


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_rows_are_added_to_folders_for_values_of_columns(folder, form):
    sink = f'from = "trades"\npath = "out"\nformat = "{form}"\nmode = "append"\npartition_by = "symbol"\n'
    text = SOURCES + f"[sinks.out]\n{sink}"
    pipeline_of(folder, text).run()
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["symbol=a", "symbol=b"]
    assert pipeline_of(folder, text).run().sinks[0].unchanged
    assert pipeline_of(folder, text).run(force=True).sinks[0].rows == 3
    back = pipeline_of(folder, f'[sources.back]\npath = "out"\nformat = "{form}"\n').step("back")
    assert sorted(back.select(["ts", "symbol"]).to_pylist(), key=str) == sorted(
        2 * TRADES.select(["ts", "symbol"]).to_pylist(), key=str
    )
    assert not [path for path in folder.iterdir() if path.name.startswith(".out")]


@pytest.mark.parametrize("path", ["s3://bucket/out", "file:///tmp/out", "gs://bucket/out.parquet"])
def test_a_sink_in_a_store_is_refused_by_this_process(folder, path):
    pipeline = pipeline_of(folder, SOURCES + PRICED + SINK.replace("out.parquet", path))
    before = names(folder)
    for run in (lambda: pipeline.check(), pipeline.run):
        with pytest.raises(
            PipelineError, match=rf"sinks.out.path: .*path='{path}' is a URI, but this process writes to"
        ):
            run()
    assert names(folder) == before
    assert pipeline.check(engine="spark")


def test_changes_in_a_store_are_refused_by_this_process(folder):
    source = SOURCES.replace('"trades.parquet" }', '"trades.parquet", changes = "s3://bucket/changes" }')
    text = source + PRICED + SINK + 'changes = "s3://bucket/out"\n'
    with pytest.raises(PipelineError) as raised:
        pipeline_of(folder, text).check(mode="changes")
    said = [each.where for each in raised.value.problems if "is a URI, but this process" in each.message]
    assert sorted(said) == ["sinks.out.changes", "sources.trades.changes"]


def test_views_go_to_folders_for_values_of_columns(folder):
    for name in ("symbol", "amount"):
        views = TRADES.set_column(1, "symbol", TRADES["symbol"].cast(pa.string_view()))
        pq.write_table(
            views.append_column("l", pa.array([["x"], [], None], pa.list_(pa.string_view()))), folder / "v.parquet"
        )
        text = '[sources]\nv = { path = "v.parquet" }\n[sinks.out]\nfrom = "v"\npath = "o"\nmode = "overwrite"\n'
        pipeline_of(folder, f'{text}partition_by = "{name}"\n').run()
        written = ds.dataset(folder / "o", partitioning="hive").to_table()
        assert written.sort_by("ts")["l"].to_pylist() == [["x"], [], None]


def test_a_folder_takes_the_place_of_another(folder):
    text = SOURCES + '[sinks.out]\nfrom = "trades"\npath = "deep/out"\nmode = "overwrite"\n'
    for _ in range(2):
        pipeline_of(folder, text).run(force=True)
    assert ds.dataset(folder / "deep" / "out").to_table().num_rows == 3
    assert names(folder / "deep") == ["out"]


def test_files_of_a_source_that_lack_columns(folder):
    (folder / "many").mkdir()
    pq.write_table(TRADES.slice(0, 2).drop(["amount"]), folder / "many" / "0.parquet")
    pq.write_table(TRADES.slice(2), folder / "many" / "1.parquet")
    text = '[sources]\nquotes = { path = "quotes.parquet" }\n[sources.trades]\npath = "many"\n' + PRICED + SINK
    with pytest.raises(PipelineError, match=r"juncture.toml:4: sources.trades.path: .*'amount' exists only in"):
        pipeline_of(folder, text).check()
    pipeline_of(folder, text.replace('path = "many"', 'path = "many"\nunion_by_name = true')).run()
    assert pq.read_table(folder / "out.parquet")["amount"].to_pylist() == [None, None, 30]


def test_a_source_of_arrow(folder):
    for number in range(3):
        with pa.ipc.new_stream(folder / f"trades-{number}.arrow", TRADES.schema) as writer:
            writer.write_table(TRADES.slice(number, 1))
    pipeline_of(folder, SOURCES.replace("trades.parquet", "trades-*.arrow") + PRICED + SINK).run()
    assert pq.read_table(folder / "out.parquet").equals(jn.join_asof(TRADES, QUOTES, on="ts", by="symbol"))


def test_only_some_sinks(folder):
    text = SOURCES + PRICED + SINK + '[sinks.raw]\nfrom = "quotes"\npath = "raw.csv"\n'
    pipeline = pipeline_of(folder, text)
    assert [each.name for each in pipeline.run(only=["raw"]).sinks] == ["raw"]
    assert [each.name for each in pipeline.run(only=["priced"]).sinks] == ["out"]
    assert [each.name for each in pipeline.run(downstream_of=["trades"], force=True).sinks] == ["out"]
    with pytest.raises(SpecError, match="Did you mean 'raw'"):
        pipeline.run(only=["rav"])
    with pytest.raises(SpecError, match="selects no sink"):
        pipeline.run(only=["raw"], downstream_of=["priced"])


def test_text_has_the_types_of_its_beginning(folder):
    (folder / "late.csv").write_text("id,x\n" + "1,2\n" * 300_000 + "oops,3\n")
    with pytest.raises(DataError, match=r"types = \{ column = \"string\" \}"):
        pipeline_of(folder, '[sources.late]\npath = "late.csv"\n').step("late")
    text = '[sources.late]\npath = "late.csv"\ntypes = { id = "string" }\n'
    assert pipeline_of(folder, text).step("late")["id"].to_pylist()[-1] == "oops"


def test_a_spine_with_several_tables_a_grid_and_lines(folder):
    text = (
        SOURCES
        + """
[steps.spine]
from = "quotes"
grid = { every = 2, on = "ts", by = "symbol" }
[steps.lines]
join = "interpolate"
left = "spine"
right = "quotes"
on = "ts"
by = "symbol"
columns = "bid"
[steps.features]
join = "many"
left = "lines"
[steps.features.tables.trade]
join = "asof"
right = "trades"
on = "ts"
by = "symbol"
columns = { amount = "last_amount" }
check_available_at = "ts"
[steps.features.tables.quotes]
join = "range"
right = "quotes"
on = "ts"
by = "symbol"
lower = -4
upper = 0
agg = { "*" = "count" }
[[checks]]
from = "features"
table = "trade"
max_leaked = 0
min_match_rate = 0.5
[sinks.out]
from = "features"
path = "out.parquet"
"""
    )
    assert all(check.passed for check in pipeline_of(folder, text).run().checks)
    assert pq.read_table(folder / "out.parquet").to_pydict() == {
        "symbol": ["a"] * 5,
        "ts": [0, 2, 4, 6, 8],
        "bid": [1.0, 1.5, 2.0, 2.5, 3.0],
        "last_amount": [None, 10, 10, 10, 10],
        "count": [1, 1, 2, 1, 2],
    }


def test_the_example_runs_and_says_what_it_did(tmp_path, monkeypatch):
    write_example(tmp_path)
    monkeypatch.chdir(tmp_path)
    checked = CliRunner().invoke(app, ["check", "--engine", "local"])
    assert checked.exit_code == 0, checked.output
    assert "juncture.toml is valid: 7 tables" in checked.output
    done = CliRunner().invoke(app, ["-q", "run", "--engine", "local", "--set", "least=100", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert all(check["passed"] for check in report["checks"])
    assert report["sinks"][0]["rows"] == ds.dataset(tmp_path / "output" / "valued").count_rows() < 2_000
    again = CliRunner().invoke(app, ["init"])
    assert again.exit_code == 2
    assert "is not replaced" in again.output


def test_the_example_is_explained_in_words_and_as_a_page(tmp_path, monkeypatch):
    write_example(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["explain", "pipeline", "--engine", "local"])
    assert said.exit_code == 0, said.output
    for words in (
        "Pipeline trades in this process",
        "As-of join in-process",
        "Equality join in-process",
        "mode overwrite",
    ):
        assert words in said.output
    assert CliRunner().invoke(app, ["explain", "pipeline", "--engine", "local", "-o", "plan.html"]).exit_code == 0
    page = (tmp_path / "plan.html").read_text()
    assert page.count("<main>") == 1
    assert page.count('<h2 id="step-') == 2
    # Three sources, four steps and a sink.
    assert page.partition("What flows where</figcaption>")[0].count("<rect") == 8
    assert not (tmp_path / "output").exists()
    monkeypatch.undo()
    elsewhere = jn.Pipeline.from_toml(tmp_path / "juncture.toml").explain("html")
    assert elsewhere.partition("<h2")[0] == page.partition("<h2")[0]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["run", "--engine", "locl"], "Did you mean 'local'?"),
        (["run", "nowhere.toml"], "Pipeline file 'nowhere.toml' does not exist"),
        (["run", "--engine", "local", "--stream"], "--stream need Spark"),
        (["run", "--stream", "--poll-interval", "ten"], "--poll-interval='ten' is not a duration"),
        (["run", "--engine", "local", "--changes"], "No sink has changes"),
        (["run", "--stream", "--changes"], "Pass one of them"),
        (["run", "--memory", "1GB"], "--memory limits joins in this process"),
        (["check", "--set", "least"], "is not NAME=VALUE"),
        (["check", "--set", "leest=1"], "Did you mean 'least'?"),
        (["check", "--set", "least=much"], "has the value 'much'. Expected type integer"),
    ],
)
def test_wrong_arguments_are_answered(tmp_path, monkeypatch, arguments, answer):
    write_example(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert answer in " ".join(done.output.split())
