"""`juncture view`: an SQL query as a filter: changes of tables in, changes of the result out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from juncture.cli import options
from juncture.cli.options import STANDARD_OUTPUT, check_there, with_parameters
from juncture.errors import SpecError
from juncture.spec.arguments import check_choice

_OUTPUT_FORMATS = ("csv", "tsv", "json", "arrow")

_tables, _epochs, _files, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Tables", "Epochs", "Files", "Run")
)


@dataclass(frozen=True, kw_only=True)
class ViewOptions:
    """The options of `juncture view`."""

    sql: Annotated[str, typer.Argument(help="Query in DuckDB's SQL.")]
    changes: Annotated[
        list[str],
        _tables(
            metavar="[TABLES=]PATH",
            help="Changes: a file, a named pipe, or - for standard input. sales=- are changes of one table. With "
            "several, as in sales,books=-, the column _table names the table of a row. By default, all tables change. "
            "Repeatable.",
        ),
    ]
    source: Annotated[
        list[str] | None,
        _tables(metavar="TABLE=PATH", help="First rows of a table: a file, a folder or a glob. Repeatable."),
    ] = None
    columns: Annotated[
        list[str] | None,
        _tables(
            metavar="TABLE=COLUMNS",
            help="Columns of a table that is empty first, such as 'sales=id bigint, price decimal(9,2)'. Repeatable.",
        ),
    ] = None
    order: Annotated[
        list[str] | None,
        _tables(
            metavar="TABLE=COLUMN",
            help="Column of a table that grows, such as a time. Rows that later changes cannot need are forgotten. "
            "Repeatable.",
        ),
    ] = None
    delay: Annotated[
        list[str] | None,
        _tables(
            metavar="TABLE=DISTANCE",
            help="How far values of --order may be behind earlier ones: a duration such as 10s, or a number. "
            "Repeatable.",
        ),
    ] = None
    late: Annotated[
        list[str] | None,
        _tables(
            metavar="TABLE=RULE",
            help="Changes farther behind: count (default) excludes and counts them, error refuses them, and repair:1h "
            "applies those up to an hour behind the delay. Repeatable.",
        ),
    ] = None
    final_rows: Annotated[
        str, _tables(metavar="RULE", help="Rows of the result that can no longer change: keep or forget.")
    ] = "keep"
    epoch_rows: Annotated[
        int | None, _epochs(metavar="COUNT", min=1, help="Rows of an epoch. Default: those that wait.")
    ] = None
    epoch_by: Annotated[
        str | None, _epochs(metavar="COLUMN", help="Column of the changes with another value in each epoch.")
    ] = None
    epochs: Annotated[bool, _epochs("--epochs", help="Add the column _epoch to the output.")] = False
    output: Annotated[
        Path,
        _files("--output", "-o", metavar="PATH", help="Output: -, or a folder for one Parquet file for each epoch."),
    ] = STANDARD_OUTPUT
    output_format: Annotated[
        str, _files("--output-format", metavar="NAME", help="Format of standard output: csv, tsv, json or arrow.")
    ] = "csv"
    input_format: Annotated[
        str | None,
        _files(
            "--format",
            metavar="NAME",
            help="Format of inputs, if not clear from extension or content: csv, tsv, json or arrow; parquet for "
            "--source.",
        ),
    ] = None
    delimiter: options.Delimiter = ","
    nulls: options.Nulls = None
    types: options.Types = None
    state: Annotated[
        Path | None, _run(metavar="FOLDER", help="Folder with the state, to continue after a restart.")
    ] = None
    continued: Annotated[
        bool,
        _run("--continued", help="With --state: inputs have only new rows. By default, applied rows are skipped."),
    ] = False
    memory: options.Memory = None
    unmatched_deletes: Annotated[
        str, _run(metavar="RULE", help="Deletes of rows that do not exist: error or count.")
    ] = "error"
    explain: Annotated[bool, _run("--explain", help="Print the operators at the end, with rows, memory and time.")] = (
        False
    )
    explain_format: Annotated[
        str | None, _run(metavar="NAME", help="Format of --explain: text (default), json or html. Implies --explain.")
    ] = None

    def by_table(self, option: str) -> dict[str, str]:
        """Return the values of a repeatable option, such as ``source``, by table."""
        named = dict[str, str]()
        for text in getattr(self, option) or ():
            name, sign, value = text.partition("=")
            if not sign or not name.strip() or name in named:
                problem = "names a table twice" if name in named else "has no table"
                raise SpecError(
                    f"--{option} {text!r} {problem}. Expected each table once, such as --{option} {_EXAMPLES[option]}.",
                    name="JN-ARGUMENT-VALUE",
                )
            named[name] = value
        return named


_EXAMPLES = {
    "source": "sales=sales.csv", "columns": "'sales=id bigint'", "order": "sales=ts", "delay": "sales=10s",
    "late": "sales=error",
}  # fmt: skip


def _view(**arguments: Any) -> None:
    chosen = ViewOptions(**arguments)
    for name, path in chosen.by_table("source").items():
        check_there(path, name)
    if chosen.epoch_rows is not None and chosen.epoch_by is not None:
        raise SpecError("--epoch-rows and --epoch-by exclude each other. Pass one.", name="JN-ARGUMENT-CONFLICT")
    check_choice("--output-format", chosen.output_format, _OUTPUT_FORMATS)
    check_choice("--explain-format", chosen.explain_format or "text", ("text", "json", "html"))
    check_choice("--final-rows", chosen.final_rows, ("keep", "forget"))
    # Most modules are imported from here on, so that errors in arguments are reported at once.
    from juncture.cli.changes import run

    run(chosen)


view = with_parameters(
    _view,
    signature(ViewOptions, eval_str=True).parameters.values(),
    """Maintain the result of an SQL query: changes of its tables in, changes of the result out.

    [dim]juncture view 'SELECT book, sum(copies) FROM sales GROUP BY book' --source sales=sales/ --changes sales=-
    juncture view 'SELECT * FROM sales JOIN books USING (book)' --source books=books.csv \
--columns 'sales=book string, copies int' --changes sales=- --output-format json --state state[/dim]
    """,
)
