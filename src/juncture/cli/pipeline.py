"""`juncture init`, `juncture check` and `juncture run`: pipelines of one TOML file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from juncture.cli.console import messages, results
from juncture.cli.progress import Step, step
from juncture.cli.show import count, heading
from juncture.errors import SpecError
from juncture.spec.arguments import check_choice
from juncture.spec.duration import duration_ns

if TYPE_CHECKING:
    from juncture.pipeline.run import RunReport

FILE = Path("juncture.toml")

File = Annotated[Path, typer.Argument(metavar="[FILE]", help="The pipeline.", show_default=True)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A value for a parameter of the file; may be repeated."),
]
Engine = Annotated[str, typer.Option(metavar="NAME", help="spark, or local for this process.")]
Master = Annotated[str | None, typer.Option(metavar="URL", help="The cluster to run on, such as spark://host:7077.")]
Remote = Annotated[str | None, typer.Option(metavar="URL", help="A Spark Connect server, such as sc://host.")]
_Json = Annotated[bool, typer.Option("--json", help="Write what there is to say as JSON.")]


def opened(file: Path, values: list[str] | None) -> Any:
    """Return the pipeline of a file.

    Raises
    ------
    SpecError
        If there is no such file, or a value has no name.
    """
    parameters = {}
    for text in values or ():
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise SpecError(f"--set {text!r} names no parameter and value. Expected such as date=2026-01-01.")
        parameters[name] = value
    if not file.is_file():
        raise SpecError(f"There is no pipeline {file}. Name another file, or write one with `juncture init`.")
    from juncture.pipeline.pipeline import Pipeline

    return Pipeline.from_toml(file, parameters)


def engine_of(name: str) -> Literal["local", "spark"]:
    """Return an engine by its name.

    Raises
    ------
    SpecError
        If there is none.
    """
    check_choice("--engine", name, ("local", "spark"))
    return "local" if name == "local" else "spark"


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to write it.")] = Path(),
) -> None:
    """Write a pipeline that runs, with its data, to begin from.

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
        bool, typer.Option("--changes", help="Whether it can be kept up to date, by `run --changes`, too.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Hold a pipeline against the columns of its sources, without reading rows or starting Spark.

    [dim]juncture check
    juncture check nightly.toml --set date=2026-01-01 --engine local[/dim]
    """
    chosen = engine_of(engine)
    schemas = opened(file, values).check(chosen, is_stream=of_changes, of_changes=of_changes)
    if as_json:
        columns = {name: schema and {each.name: str(each.type) for each in schema} for name, schema in schemas.items()}
        typer.echo(json.dumps(columns, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, schema in schemas.items():
        known = "columns that Spark knows" if schema is None else ", ".join(f"{f.name} {f.type}" for f in schema)
        table.add_row(Text(name, style="bold"), Text(known))
    results().print(table)
    results().print(Text(f"{file} is right: {count(len(schemas), 'table')}, nothing read."))


def run(
    file: File = FILE,
    values: Set = None,
    engine: Engine = "spark",
    master: Master = None,
    remote: Remote = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this sink, or those of this step; may be repeated.")
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="NAME", help="Only sinks that this step or source leads to; may be repeated."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Write what is unchanged, too.")] = False,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="How much memory joins in this process may take, such as 2GB.")
    ] = None,
    is_stream: Annotated[bool, typer.Option("--stream", help="Run as a stream, with a checkpoint.")] = False,
    of_changes: Annotated[
        bool, typer.Option("--changes", help="Keep the sinks up to date: take changes of the sources, write theirs.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --stream and --changes: go on for ever, looking so often. Without it, what is there is done.",
        ),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Run a pipeline: read, join, check, write. What is unchanged is not done again.

    [dim]juncture run --set date=2026-01-01
    juncture run --engine local --only daily
    juncture run --master spark://host:7077
    juncture run --stream --every '10 seconds'
    juncture run --changes
    juncture run --changes --engine local --every 5s[/dim]
    """
    chosen = engine_of(engine)
    if chosen == "local" and (master or remote or is_stream):
        raise SpecError("--engine local goes with none of --master, --remote and --stream, which are Spark's.")
    if is_stream and of_changes:
        raise SpecError("--stream takes rows that come, and --changes those that change. Pass one of them.")
    if memory is not None and chosen == "spark":
        raise SpecError("--memory limits joins in this process, and this runs on Spark. Leave it out.")
    pipeline = opened(file, values)
    if chosen == "local" and of_changes:
        report = _follow(pipeline, only or (), start or (), every, memory)
    elif is_stream or of_changes:
        report = _stream(pipeline, master, remote, only or (), start or (), every, of_changes=of_changes)
    elif chosen == "local":
        report = pipeline.run(only=only or (), start=start or (), again=again, memory=memory, watch=step)
    else:
        report = _on_spark(pipeline, master, remote, only or (), start or (), again=again)
    _show(report, as_json=as_json)


@contextmanager
def session(pipeline: Any, master: str | None, remote: str | None, *, is_stream: bool = False) -> Iterator[Any]:
    """Start Spark for a pipeline, here or on a cluster, with the settings of its file, and stop it at the end."""
    from juncture.cli.spark import spark_session
    from juncture.pipeline.streaming import STREAM_SETTINGS

    settings = dict(STREAM_SETTINGS) if is_stream else {}
    settings |= {name: str(value) for name, value in pipeline.file.spark.items()}
    with spark_session(master=master, remote=remote, settings=settings) as started:
        yield started


class _Running:
    """Spark, which is started when something is to be done."""

    def __init__(self, stack: ExitStack, begin: Callable[[], AbstractContextManager[Any]]) -> None:
        self._stack = stack
        self._begin = begin
        self._session: Any = None

    def __call__(self) -> Any:
        """Return the session."""
        if self._session is None:
            self._session = self._stack.enter_context(self._begin())
        return self._session

    @contextmanager
    def watch(self, what: str) -> Iterator[Step]:
        """Show what is under way, and the tasks of Spark's that do it."""
        from juncture.cli.spark import stages

        with step(what) as shown, stages(self(), shown):
            yield shown


def _on_spark(
    pipeline: Any, master: str | None, remote: str | None, only: Sequence[str], start: Sequence[str], *, again: bool
) -> RunReport:
    with ExitStack() as stack:
        running = _Running(stack, lambda: session(pipeline, master, remote))
        report: RunReport = pipeline.run(running, only=only, start=start, again=again, watch=running.watch)
        return report


def _stream(
    pipeline: Any,
    master: str | None,
    remote: str | None,
    only: Sequence[str],
    start: Sequence[str],
    every: str | None,
    *,
    of_changes: bool,
) -> RunReport:
    """Run a pipeline as a stream, of rows or of changes, until what is there is done, or for ever."""
    from juncture.pipeline.streaming import finished

    pipeline.check("spark", is_stream=True, of_changes=of_changes)
    with session(pipeline, master, remote, is_stream=True) as spark:
        begin = pipeline.changes if of_changes else pipeline.stream
        queries = begin(spark, only=only, start=start, every=every)
        with step("Streaming") as shown:
            report: RunReport = finished(pipeline.file, queries, shown)
            return report


def _follow(
    pipeline: Any, only: Sequence[str], start: Sequence[str], every: str | None, memory: str | None
) -> RunReport:
    """Keep the sinks of a pipeline up to date in this process, until what is there is done, or for ever."""
    from juncture.pipeline.local_changes import followed

    every_s = None if every is None else duration_ns(every, argument="--every") / 1e9
    with pipeline.follow(only=only, start=start, memory=memory) as followers, step("Following") as shown:
        report: RunReport = followed(pipeline.file, followers, every_s, shown)
        return report


def _show(report: RunReport, *, as_json: bool) -> None:
    """Say what a run did."""
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
        return
    console = results()
    if report.checks:
        table = Table(box=None, pad_edge=False)
        for heading_text in ("check", "expected", "found", ""):
            table.add_column(heading_text)
        for each in report.checks:
            table.add_row(*map(Text, (each.of, each.expected, each.found, "yes" if each.passed else "no: a warning")))
        console.print(heading("Checks"), table)
    table = Table(box=None, pad_edge=False)
    for heading_text in ("sink", "place", "rows", "time"):
        table.add_column(heading_text, justify="right" if heading_text in ("rows", "time") else "left")
    for sink in report.sinks:
        rows = "" if sink.rows is None else f"{sink.rows:,}"
        took = "unchanged" if sink.unchanged else f"{sink.seconds:.1f} s"
        table.add_row(*map(Text, (sink.name, sink.place, rows, took)))
    console.print(heading(f"Done in {report.seconds:.1f} s"), table)
