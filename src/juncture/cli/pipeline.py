"""`juncture init`, `juncture check` and `juncture run`: pipelines of one TOML file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from juncture.cli.console import messages, results
from juncture.cli.progress import step
from juncture.cli.show import count, heading, table_view
from juncture.errors import SpecError
from juncture.spec.arguments import check_choice

if TYPE_CHECKING:
    from juncture.pipeline.run import RunReport

FILE = Path("juncture.toml")

File = Annotated[Path, typer.Argument(metavar="[FILE]", help="Pipeline file.", show_default=True)]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Value of a parameter of the file. Repeatable.")
]
Engine = Annotated[str, typer.Option(metavar="NAME", help="Engine: spark, or local (in this process).")]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark master, for example spark://host:7077.")]
Remote = Annotated[str | None, typer.Option(metavar="URL", help="Spark Connect server, for example sc://host.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def opened(file: Path, values: list[str] | None) -> Any:
    """Return the pipeline of a file, with values for its parameters."""
    parameters = {}
    for text in values or ():
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise SpecError(
                f"--set {text!r} is not NAME=VALUE. Pass a name and a value, for example --set date=2026-01-01.",
                name="JN-ARGUMENT-VALUE",
            )
        parameters[name] = value
    if not file.is_file():
        raise SpecError(
            f"Pipeline file {str(file)!r} does not exist. Pass another file, or create one with `juncture init`.",
            name="JN-PIPELINE-MISSING",
        )
    from juncture.pipeline.pipeline import Pipeline

    return Pipeline.from_toml(file, parameters)


def engine_of(name: str) -> Literal["local", "spark"]:
    """Return a validated engine."""
    check_choice("--engine", name, ("local", "spark"))
    return "local" if name == "local" else "spark"


def init(folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Target folder.")] = Path()) -> None:
    """Create an example pipeline with its data.

    [dim]juncture init example && cd example && juncture check && juncture run[/dim]
    """
    from juncture.pipeline.example import write_example

    written = write_example(folder)
    messages().print(Text(f"Wrote {', '.join(str(path) for path in written)}."), soft_wrap=True)


def check(
    file: File = FILE,
    values: Set = None,
    engine: Engine = "spark",
    of_changes: Annotated[
        bool, typer.Option("--changes", help="Also check that `run --changes` can maintain its sinks.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Validate a pipeline against its source schemas, without reading rows or starting Spark.

    [dim]juncture check
    juncture check nightly.toml --set date=2026-01-01 --engine local[/dim]
    """
    chosen = engine_of(engine)
    schemas = opened(file, values).check(engine=chosen, mode="changes" if of_changes else "batch")
    if as_json:
        columns = {name: schema and {each.name: str(each.type) for each in schema} for name, schema in schemas.items()}
        typer.echo(json.dumps(columns, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, schema in schemas.items():
        text = "columns are resolved by Spark" if schema is None else ", ".join(f"{f.name} {f.type}" for f in schema)
        table.add_row(Text(name, style="bold"), Text(text))
    results().print(table)
    results().print(Text(f"{file} is valid: {count(len(schemas), 'table')} checked, no rows read."))


def verify(
    file: File = FILE,
    values: Set = None,
    sample_rows: Annotated[
        int, typer.Option("--sample", metavar="ROWS", min=1, help="Number of rows of each source.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="Seed of batches, epochs and restarts.")] = 0,
    as_json: _Json = False,
) -> None:
    """Compare the steps of a pipeline in one batch, as streams and over changes.

    The exit code is 1 if a result differs.

    [dim]juncture verify
    juncture verify nightly.toml --sample 100000 --seed 7[/dim]
    """
    with step("Verifying"):
        report = opened(file, values).verify(sample_rows=sample_rows, seed=seed)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        rows = [(each.step, each.way, each.outcome, f"{each.rows:,}") for each in report.steps]
        results().print(table_view(("step", "way", "outcome", "rows"), rows, numbers=("rows",)))
        for each in report.steps:
            if each.detail:
                results().print(Text.assemble((f"{each.step}, {each.way}: ", "bold"), each.detail), soft_wrap=True)
    if not report.is_equal:
        raise typer.Exit(1)


def run(
    file: File = FILE,
    values: Set = None,
    engine: Engine = "spark",
    master: Master = None,
    remote: Remote = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Write only this sink, or the sinks of this step. Repeatable."),
    ] = None,
    downstream_of: Annotated[
        list[str] | None,
        typer.Option(
            "--downstream-of", metavar="NAME", help="Write only sinks that depend on this source or step. Repeatable."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also write sinks whose inputs are unchanged.")] = False,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit of joins in this process, for example 2GB.")
    ] = None,
    is_stream: Annotated[bool, typer.Option("--stream", help="Run as a streaming query with a checkpoint.")] = False,
    of_changes: Annotated[
        bool, typer.Option("--changes", help="Maintain the sinks: apply the changes of the sources.")
    ] = False,
    poll_interval: Annotated[
        str | None,
        typer.Option(
            "--poll-interval",
            metavar="DURATION",
            help="With --stream or --changes: poll at this interval, for example 10s, until stopped. Default: process "
            "once.",
        ),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Run a pipeline: read, join, check and write. Skip sinks whose inputs are unchanged.

    [dim]juncture run --set date=2026-01-01
    juncture run --engine local --only daily
    juncture run --master spark://host:7077
    juncture run --stream --poll-interval 10s
    juncture run --changes
    juncture run --changes --engine local --poll-interval 5s[/dim]
    """
    chosen = engine_of(engine)
    problem = None
    if chosen == "local" and (master or remote or is_stream):
        problem = "--master, --remote and --stream need Spark, but --engine is local. Remove them, or --engine local."
    elif is_stream and of_changes:
        problem = "--stream and --changes exclude each other. Pass one of them."
    elif memory is not None and chosen == "spark":
        problem = "--memory limits joins in this process, but --engine is spark. Remove it, or pass --engine local."
    if problem is not None:
        raise SpecError(problem, name="JN-ARGUMENT-CONFLICT")
    from juncture.pipeline.pipeline import poll_interval_ms

    poll_ms = poll_interval_ms(poll_interval, argument="--poll-interval")
    pipeline = opened(file, values)
    sinks = {"only": only or (), "downstream_of": downstream_of or ()}
    if chosen == "local" and of_changes:
        report = _follow(pipeline, poll_ms, memory=memory, **sinks)
    elif is_stream or of_changes:
        begin = pipeline.changes if of_changes else pipeline.stream
        pipeline.check(engine="spark", mode="changes" if of_changes else "stream")
        with session(pipeline, master, remote, is_stream=True) as spark:
            report = _finished(pipeline, begin(spark, poll_interval=poll_interval, **sinks))
    elif chosen == "local":
        report = pipeline.run(force=force, memory=memory, watch=step, **sinks)
    else:
        report = _run_on_spark(pipeline, master, remote, force=force, **sinks)
    _show(report, as_json=as_json)


@contextmanager
def session(pipeline: Any, master: str | None, remote: str | None, *, is_stream: bool = False) -> Iterator[Any]:
    """Start Spark for a pipeline with the settings of its file, and stop it at the end."""
    from juncture.cli.spark import spark_session
    from juncture.pipeline.streaming import STREAM_SETTINGS

    settings = dict(STREAM_SETTINGS) if is_stream else {}
    settings |= {name: str(value) for name, value in pipeline.file.spark.items()}
    with spark_session(master=master, remote=remote, settings=settings) as started:
        yield started


def _run_on_spark(pipeline: Any, master: str | None, remote: str | None, **arguments: Any) -> RunReport:
    from juncture.cli.spark import step_on

    with ExitStack() as stack:
        # Spark starts only if a sink has to be written.
        started = cache(lambda: stack.enter_context(session(pipeline, master, remote)))
        report: RunReport = pipeline.run(started, watch=lambda what: step_on(started(), what), **arguments)
        return report


def _finished(pipeline: Any, queries: Any) -> RunReport:
    """Wait for the queries of a pipeline, which ends once or when stopped."""
    from juncture.pipeline.streaming import finished

    with step("Streaming") as progress:
        return finished(pipeline.file, queries, progress)


def _follow(pipeline: Any, poll_ms: int | None, **arguments: Any) -> RunReport:
    from juncture.pipeline.local_changes import followed

    poll_s = None if poll_ms is None else poll_ms / 1000
    with pipeline.follow(**arguments) as followers, step("Following") as progress:
        return followed(pipeline.file, followers, poll_s, progress)


def _show(report: RunReport, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
        return
    console = results()
    if report.checks:
        checks = [
            (each.of, each.expected, each.found, "yes" if each.passed else "no: a warning") for each in report.checks
        ]
        console.print(heading("Checks"), table_view(("check", "expected", "found", ""), checks))
    sinks = []
    for sink in report.sinks:
        rows = "" if sink.rows is None else f"{sink.rows:,}"
        took = "unchanged" if sink.unchanged else f"{sink.duration_s:.1f} s"
        sinks.append((sink.name, sink.place, rows, took))
    table = table_view(("sink", "place", "rows", "time"), sinks, numbers=("rows", "time"))
    console.print(heading(f"Done in {report.duration_s:.1f} s"), table)
