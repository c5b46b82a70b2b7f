"""`juncture view`: an SQL query as a filter: changes of tables in, changes of the result out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from juncture.cli import options
from juncture.cli.options import STANDARD_OUTPUT, check_there
from juncture.errors import SpecError
from juncture.spec.arguments import check_choice

_OUTPUT_FORMATS = ("csv", "tsv", "json", "arrow")

_tables, _epochs, _files, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Tables", "Epochs", "Files", "Run")
)
_Sql = Annotated[str, typer.Argument(help="Query in DuckDB's SQL.")]
_Changes = Annotated[
    list[str],
    _tables(
        metavar="[TABLES=]PATH",
        help="Changes: a file, a named pipe, or - for standard input. sales=- are changes of one table. With several, "
        "as in sales,books=-, the column _table names the table of a row. By default, all tables change. Repeatable.",
    ),
]
_Source = Annotated[
    list[str] | None,
    _tables(metavar="TABLE=PATH", help="First rows of a table: a file, a folder or a glob. Repeatable."),
]
_Columns = Annotated[
    list[str] | None,
    _tables(
        metavar="TABLE=COLUMNS",
        help="Columns of a table that is empty first, such as 'sales=id bigint, price decimal(9,2)'. Repeatable.",
    ),
]
_EpochRows = Annotated[int | None, _epochs(metavar="COUNT", min=1, help="Rows of an epoch. Default: those that wait.")]
_EpochBy = Annotated[
    str | None, _epochs(metavar="COLUMN", help="Column of the changes with another value in each epoch.")
]
_Epochs = Annotated[bool, _epochs("--epochs", help="Add the column _epoch to the output.")]
_Output = Annotated[
    Path,
    _files("--output", "-o", metavar="PATH", help="Output: -, or a folder for one Parquet file for each epoch."),
]
_OutputFormat = Annotated[
    str, _files("--output-format", metavar="NAME", help="Format of standard output: csv, tsv, json or arrow.")
]
_InputFormat = Annotated[
    str | None,
    _files(
        "--format",
        metavar="NAME",
        help="Format of inputs, if not clear from extension or content: csv, tsv, json or arrow; parquet for --source.",
    ),
]
_State = Annotated[Path | None, _run(metavar="FOLDER", help="Folder with the state, to continue after a restart.")]
_Continued = Annotated[
    bool, _run("--continued", help="With --state: inputs have only new rows. By default, applied rows are skipped.")
]
_Deletes = Annotated[str, _run(metavar="RULE", help="Deletes of rows that do not exist: error or count.")]
_Explain = Annotated[bool, _run("--explain", help="Print the operators at the end, with rows, memory and time.")]


def view(
    sql: _Sql,
    changes: _Changes,
    source: _Source = None,
    columns: _Columns = None,
    epoch_rows: _EpochRows = None,
    epoch_by: _EpochBy = None,
    epochs: _Epochs = False,
    output: _Output = STANDARD_OUTPUT,
    output_format: _OutputFormat = "csv",
    input_format: _InputFormat = None,
    delimiter: options.Delimiter = ",",
    nulls: options.Nulls = None,
    types: options.Types = None,
    state: _State = None,
    continued: _Continued = False,
    memory: options.Memory = None,
    unmatched_deletes: _Deletes = "error",
    explain: _Explain = False,
) -> None:
    """Maintain the result of an SQL query: changes of its tables in, changes of the result out.

    [dim]juncture view 'SELECT book, sum(copies) FROM sales GROUP BY book' --source sales=sales/ --changes sales=-
    juncture view 'SELECT * FROM sales JOIN books USING (book)' --source books=books.csv \
--columns 'sales=book string, copies int' --changes sales=- --output-format json --state state[/dim]
    """
    paths = _named("--source", source)
    for name, path in paths.items():
        check_there(path, name)
    if epoch_rows is not None and epoch_by is not None:
        raise SpecError("--epoch-rows and --epoch-by exclude each other. Pass one.", name="JN-ARGUMENT-CONFLICT")
    check_choice("--output-format", output_format, _OUTPUT_FORMATS)
    # Most modules are imported from here on, so that errors in arguments are reported at once.
    from juncture.cli.changes import ViewRequest, run
    from juncture.files.text.options import TextOptions, column_types

    text = TextOptions(
        nulls=tuple(nulls or ()),
        delimiter=options.delimiter_of(delimiter),
        types=column_types(types, argument="--type"),
    )
    request = ViewRequest(
        sql=sql,
        changes=changes,
        first_rows=paths,
        columns=_named("--columns", columns),
        epoch_rows=epoch_rows,
        epoch_by=epoch_by,
        epochs=epochs,
        output=output,
        output_format=output_format,
        input_format=input_format,
        text=text,
        state=state,
        continued=continued,
        memory=memory,
        unmatched_deletes=unmatched_deletes,
        explain=explain,
    )
    run(request)


def _named(option: str, texts: list[str] | None) -> dict[str, str]:
    """Return the values of a repeatable option by table."""
    named = dict[str, str]()
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or name in named:
            problem = "names a table twice" if name in named else "has no table"
            example = "sales=sales.csv" if option == "--source" else "'sales=id bigint'"
            raise SpecError(
                f"{option} {text!r} {problem}. Expected each table once, such as {option} {example}.",
                name="JN-ARGUMENT-VALUE",
            )
        named[name] = value
    return named
