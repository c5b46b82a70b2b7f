"""The arguments of join commands: options with their help texts, paths, and commands with computed options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from juncture.errors import SpecError
from juncture.files.formats import WILDCARDS, files_of

_columns, _meaning, _files, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Columns", "Meaning", "Files", "Run")
)

_COLUMN = "COLUMN"


def _column(help_text: str) -> Any:
    return _columns(metavar=_COLUMN, help=help_text)


On = Annotated[str | None, _column("Column that orders both tables: a number, a date or a time.")]
OnAll = Annotated[
    list[str] | None, _column("Column that orders both tables. Repeat the option to compare several columns in turn.")
]
LeftOn = Annotated[str | None, _column("Name of that column in the left table, if the names differ.")]
RightOn = Annotated[str | None, _column("Name of that column in the right table.")]
By = Annotated[list[str] | None, _column("Key column that must be equal. Repeat the option for several.")]
LeftBy = Annotated[list[str] | None, _column("Name of that column in the left table, if the names differ.")]
RightBy = Annotated[list[str] | None, _column("Name of that column in the right table.")]
Suffix = Annotated[str, _columns(metavar="TEXT", help="Suffix for right columns whose name also occurs on the left.")]
Coalesce = Annotated[bool, _columns("--coalesce/--no-coalesce", help="Omit the right --on column from the output.")]

Keys = Annotated[list[str] | None, _column("Key column of both tables. Repeat the option for several.")]
CoalesceKeys = Annotated[bool, _columns("--coalesce/--no-coalesce", help="Omit the right key columns from the output.")]

Lower = Annotated[
    str | None,
    _meaning(
        metavar="DISTANCE",
        help="Start of the window, relative to the left --on: a duration such as -1h, a number or a left column. "
        "Default: no lower bound.",
    ),
]
Upper = Annotated[
    str | None, _meaning(metavar="DISTANCE", help="End of the window, in the same forms. Default: no upper bound.")
]


def _interval(side: str) -> Any:
    return _columns(
        metavar="START END",
        help=f"Start and end columns of the {side} intervals. Pass '' for an unbounded start or end.",
    )


LeftInterval = Annotated[tuple[str, str], _interval("left")]
RightInterval = Annotated[tuple[str, str], _interval("right")]
Closed = Annotated[
    str, _meaning(metavar="ENDS", help="Which ends the window or interval includes: both, left, right or none.")
]
Predicate = Annotated[str, typer.Argument(help="Condition in SQL over left columns (l.…) and right columns (r.…).")]
Names = Annotated[tuple[str, str], _meaning(metavar="LEFT RIGHT", help="Names of the two tables in the condition.")]
AllowCross = Annotated[
    bool,
    _meaning("--allow-cross", help="Allow a condition that relates no left column to a right column (a cross join)."),
]
Agg = Annotated[
    list[str] | None,
    _meaning(
        metavar="COLUMN=FUNCTIONS",
        help="Aggregate the matches of each left row, for example value=mean,max; '*=count' counts them. "
        "Functions: count, sum, mean, min, max, std, first, last, median, quantile:0.9, count_distinct, any, "
        "all, weighted_mean:COLUMN, list, arg_min:COLUMN, arg_max:COLUMN. Repeatable.",
    ),
]

Direction = Annotated[
    str,
    _meaning(
        metavar="SIDE", help="Match direction: backward (latest earlier row), forward (first later row) or nearest."
    ),
]
Tolerance = Annotated[
    str | None,
    _meaning(
        metavar="DISTANCE",
        help="Maximum distance of a match: a duration such as 50ms or 1h30m, a number or a left column.",
    ),
]
AllowExactMatches = Annotated[
    bool, _meaning("--allow-exact-matches/--no-allow-exact-matches", help="Allow matches with an equal --on value.")
]
How = Annotated[str, _meaning(metavar="KIND", help="Join type: left, inner, right, full, semi or anti.")]
HowAll = Annotated[
    str | None,
    _meaning(metavar="KIND", help="Join type: inner (default), left (default with --agg), right, full, semi or anti."),
]
Condition = Annotated[
    str | None,
    _meaning(
        "--where", metavar="SQL", help="Additional condition in SQL over left columns (l.…) and right columns (r.…)."
    ),
]
NullsEqual = Annotated[bool, _meaning("--nulls-equal", help="Treat null keys as equal.")]
Matches = Annotated[int, _meaning(metavar="COUNT", help="Maximum number of matches for each left row.")]
OrderBy = Annotated[
    list[str] | None,
    _meaning(
        metavar=_COLUMN,
        help="Right column that breaks ties between equal --on values; the greatest value wins. Repeatable.",
    ),
]
Ties = Annotated[
    str,
    _meaning(
        metavar="RULE", help="Tie-breaking between right rows with equal --on values: greatest, first, last or error."
    ),
]
AvailableAt = Annotated[
    list[str] | None,
    _meaning(
        metavar=_COLUMN,
        help="Match only right rows that were available: the right column with the time of availability. Repeat the "
        "option with the left column that it must not exceed. Default: --on.",
    ),
]
Prefer = Annotated[
    str, _meaning(metavar="WHICH", help="Which of two equally near right rows matches: earlier or later.")
]

Delimiter = Annotated[str, _files(metavar="CHARACTER", help="Field separator of CSV; \\t for a tab.")]
Types = Annotated[
    list[str] | None,
    _files(
        "--type",
        metavar="COLUMN=TYPE",
        help="Type of a CSV or JSON column, for example id=decimal(30,0) or code=string. Repeatable.",
    ),
]
Nulls = Annotated[
    list[str] | None,
    _files("--null", metavar="TEXT", help="Text that means null in CSV, in addition to an empty field. Repeatable."),
]

Memory = Annotated[
    str | None, _run(metavar="SIZE", help="Memory limit of the join, for example 2GB. Data beyond it spills to disk.")
]


@dataclass(frozen=True)
class Request:
    """The options of a join command besides those of the join itself."""

    left: Annotated[str, typer.Argument(help="Left table: a file, a folder or a glob.")]
    right: Annotated[str, typer.Argument(help="Right table, which is searched for matches.")]
    output: Annotated[
        Path | None,
        _files(
            "--output",
            "-o",
            metavar="PATH",
            help="Output path; its extension sets the format: .parquet (a folder, if Spark writes), .csv, .tsv, .json "
            "or .arrow. Use - for CSV on standard output. Default: print the first rows.",
        ),
    ] = None
    overwrite: Annotated[bool, _files("--overwrite", help="Replace an existing output.")] = False
    output_format: Annotated[
        str | None,
        _files(
            "--output-format",
            metavar="NAME",
            help="Format of the output, if not clear from the extension: parquet, csv, tsv, json or arrow.",
        ),
    ] = None
    input_format: Annotated[
        str | None,
        _files(
            "--format",
            metavar="NAME",
            help="Format of both inputs, if not clear from the extension: parquet, csv, tsv, json (one object for each "
            "line, or a list of objects) or arrow.",
        ),
    ] = None
    union_by_name: Annotated[
        bool,
        _files(
            "--union-by-name", help="Let Parquet files of one table lack columns that others have: they are null there."
        ),
    ] = False
    delimiter: Delimiter = ","
    header: Annotated[
        bool,
        _files(
            "--header/--no-header",
            help="The first line of CSV contains the column names. Otherwise the columns are named f0, f1, …",
        ),
    ] = True
    nulls: Nulls = None
    types: Types = None
    all_text: Annotated[
        bool,
        _files(
            "--all-text", help="Read all CSV columns as text, except those that order rows and those with a --type."
        ),
    ] = False
    casts: Annotated[
        list[str] | None,
        _files("--cast", metavar="COLUMN=TYPE", help="Convert a column of any format before the join. Repeatable."),
    ] = None
    rows: Annotated[int, _files(metavar="COUNT", min=0, help="Number of rows to print.")] = 10
    engine: Annotated[str, _run(metavar="NAME", help="Engine: local (in this process) or spark.")] = "local"
    algorithm: Annotated[str, _run(metavar="NAME", help="Algorithm to use instead of the planner's choice.")] = "auto"
    memory: Memory = None
    explain: Annotated[
        bool, _run("--explain", help="Print the plan: the algorithm, the reason and the alternatives.")
    ] = False
    report: Annotated[
        bool,
        _run(
            "--report",
            help="Print how many rows matched, why others did not, and the distances of matches. Runs the join twice.",
        ),
    ] = False
    as_json: Annotated[
        bool,
        _run("--json", help="Print the outcome as one JSON object, including the plan and the report if requested."),
    ] = False


STANDARD_INPUT = "-"
STANDARD_OUTPUT = Path("-")


def is_here(path: str) -> bool:
    """Return whether a path is local and can be read repeatedly."""
    return bool(path.strip()) and path != STANDARD_INPUT and "://" not in path and not Path(path).is_fifo()


def check_there(path: str, side: str) -> None:
    """Raise `DataError` for a missing local path, before slow imports."""
    if is_here(path) and WILDCARDS.isdisjoint(path) and not Path(path).exists():
        files_of(path, f"{side} input")


Function = TypeVar("Function", bound=Callable[..., object])


def with_parameters(function: Function, parameters: Iterable[Parameter], doc: str | None) -> Function:
    """Return a function with a signature and a docstring that Typer turns into options and help."""
    parameters = list(parameters)
    vars(function)["__signature__"] = Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__doc__ = doc
    return function


def distance_of(option: str, text: str | None) -> int | Decimal | str | None:
    """Return an exact number, or the text for the spec to parse."""
    if text is None:
        return None
    if not text.strip():
        raise SpecError(
            f"{option} is empty. Pass a duration such as 5m, or a number or column.", name="JN-ARGUMENT-VALUE"
        )
    if re.fullmatch(r"\s*[+-]?\d+\s*", text):
        return int(text)
    return Decimal(text.strip()) if re.fullmatch(r"\s*[+-]?(\d*\.?\d+|\d+\.)([eE][+-]?\d+)?\s*", text) else text
