"""`juncture explain`: a command for each kind of join that prints its plan, or its analysis."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from juncture.cli import join
from juncture.cli import pipeline as pipelines
from juncture.cli.console import messages, results
from juncture.cli.options import Request, with_parameters
from juncture.cli.progress import step
from juncture.cli.run import Planned, planned
from juncture.cli.show import print_plan
from juncture.cli.spark import step_on
from juncture.files.output import replacing
from juncture.planner.plan import Analysis
from juncture.spec.arguments import check_choice
from juncture.spec.kinds import Spec

Form = Literal["text", "json", "html"]

_FORMS: dict[str, Form] = {"": "text", ".txt": "text", ".json": "json", ".html": "html"}
"""The form that each extension of an output selects."""

_OF_ROWS = ("rows", "explain", "report", "output_format", "as_json")
"""Options of `juncture join` that concern rows, which `juncture explain` does not have."""

_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Output path; its extension sets the format: .txt, .json or .html. Default: print.",
        rich_help_panel="Files",
    ),
]
_As = Annotated[
    str | None,
    typer.Option(
        "--output-format",
        metavar="NAME",
        help="Format of the plan, if not clear from the extension: text, json or html.",
        rich_help_panel="Files",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Short for --output-format json.", rich_help_panel="Files")]
_Analyze = Annotated[
    bool,
    typer.Option(
        "--analyze",
        help="Run the join, discard its rows, and print measured beside expected figures.",
        rich_help_panel="Run",
    ),
]

app = typer.Typer(
    no_args_is_help=True, help="Explain how Juncture would join two files, or run a pipeline.", rich_markup_mode="rich"
)


@app.callback()
def explanations() -> None:
    """Explain how Juncture would join two files, and why. Takes the arguments of `juncture join`."""


def _command(name: str, read: Callable[..., join.ParsedJoin]) -> None:
    """Register a command that takes the arguments of a join, except those about rows, and explains it."""
    shared = signature(read, eval_str=True).parameters
    parameters = {each: shared[each] for each in shared if each not in _OF_ROWS}
    parameters["output"] = parameters["output"].replace(annotation=_Output)
    for argument, annotation, default in (("form", _As, None), ("is_json", _Json, False), ("analyze", _Analyze, False)):
        parameters[argument] = Parameter(argument, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    def command(*, form: str | None, is_json: bool, analyze: bool, **arguments: Any) -> None:
        _explain(*read(**arguments), form=form or ("json" if is_json else None), analyze=analyze)

    doc = (
        f"Explain a join: {(read.__doc__ or '').splitlines()[0]}\n\n"
        f"[dim]juncture explain {name} … --analyze -o plan.html[/dim]"
    )
    app.command(name)(with_parameters(command, parameters.values(), doc))


for _name, _read in join.COMMANDS.items():
    _command(_name, _read)


@app.command("pipeline")
def pipeline(
    file: pipelines.File = pipelines.FILE,
    values: pipelines.Set = None,
    engine: pipelines.Engine = "spark",
    master: pipelines.Master = None,
    remote: pipelines.Remote = None,
    output: _Output = None,
    form: _As = None,
) -> None:
    """Explain a pipeline: its steps, and the algorithm of each join.

    [dim]juncture explain pipeline
    juncture explain pipeline nightly.toml --engine local -o nightly.html[/dim]
    """
    chosen = _form(form, output)
    check_choice("--output-format", chosen, ("text", "html"))
    opened = pipelines.opened(file, values)
    if pipelines.engine_of(engine) == "local":
        explained = opened.explain(chosen)
    else:
        opened.check(engine="spark")
        with pipelines.session(opened, master, remote) as session, step("Planning"):
            explained = opened.explain(chosen, session)
    _write_or_print(explained, chosen, output)


def _explain(spec: Spec, request: Request, *, form: str | None, analyze: bool) -> None:
    chosen = _form(form, request.output)
    with planned(spec, request, is_analyzed=analyze) as ready:
        explained = (_analyzed(ready) if analyze else ready.plan).explain(chosen)
    _write_or_print(explained, chosen, request.output)


def _write_or_print(explained: str, chosen: Form, output: Path | None) -> None:
    if output is not None:
        with replacing(output) as fresh:
            fresh.write_text(explained + "\n" * (not explained.endswith("\n")), encoding="utf-8")
        messages().print(Text(f"Wrote {output}."), soft_wrap=True)
    elif chosen == "text":
        print_plan(explained, results())
    else:
        typer.echo(explained)


def _form(named: str | None, output: Path | None) -> Form:
    if named is None:
        ending = "" if output is None else output.suffix.lower()
        check_choice("the extension of --output", ending, tuple(_FORMS))
        return _FORMS[ending]
    check_choice("--output-format", named, ("text", "json", "html"))
    return next(form for form in _FORMS.values() if form == named)


def _analyzed(ready: Planned) -> Analysis:
    with step_on(ready.session, "Joining" if ready.session is None else "Joining on Spark") as joining:
        return ready.plan.analyze(progress=joining.phase)
