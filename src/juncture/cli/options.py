"""The options of joins, with what they mean to someone who reads ``--help``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

_columns, _meaning, _files, _run = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Columns", "Meaning", "Files", "Run")
)

_COLUMN = "COLUMN"

Left = Annotated[str, typer.Argument(help="The table whose rows get a match: a file, a folder or a glob.")]
Right = Annotated[str, typer.Argument(help="The table in which matches are looked up.")]


def _column(help_text: str) -> Any:
    return _columns(metavar=_COLUMN, help=help_text)


On = Annotated[str | None, _column("Column of both tables that orders them: a number, a date or a time.")]
OnAll = Annotated[
    list[str] | None,
    _column("Column of both tables that orders them; repeat it for several, compared one after the other."),
]
LeftOn = Annotated[str | None, _column("Its name on the left, where they differ.")]
RightOn = Annotated[str | None, _column("Its name on the right.")]
By = Annotated[list[str] | None, _column("Column that has to be equal; repeat it for several.")]
LeftBy = Annotated[list[str] | None, _column("Its name on the left, where they differ.")]
RightBy = Annotated[list[str] | None, _column("Its name on the right.")]
Suffix = Annotated[str, _columns(metavar="TEXT", help="Added to the name of a right column that the left has too.")]
Coalesce = Annotated[
    bool, _columns("--coalesce/--no-coalesce", help="Whether to leave out the right column that --on names.")
]

Keys = Annotated[list[str] | None, _column("Column of both tables that has to be equal; repeat it for several.")]
LeftKeys = Annotated[list[str] | None, _column("Its name on the left, where they differ.")]
RightKeys = Annotated[list[str] | None, _column("Its name on the right.")]
CoalesceKeys = Annotated[
    bool,
    _columns("--coalesce/--no-coalesce", help="Whether to leave out the right columns that equal left ones."),
]

Lower = Annotated[
    str | None,
    _meaning(
        metavar="DISTANCE",
        help="Where the window starts, from the left --on: a duration such as -1h, a number, or a left column. "
        "Without it, the window is open on this side.",
    ),
]
Upper = Annotated[str | None, _meaning(metavar="DISTANCE", help="Where it ends, likewise.")]


def _interval(side: str) -> Any:
    return _columns(
        metavar="START END",
        help=f"Columns in which intervals of the {side} start and end; '' for one of them where all are unbounded.",
    )


LeftInterval = Annotated[tuple[str, str], _interval("left")]
RightInterval = Annotated[tuple[str, str], _interval("right")]
Closed = Annotated[str, _meaning(metavar="ENDS", help="Which ends belong to it: both, left, right or none.")]
Predicate = Annotated[
    str, typer.Argument(help="The condition: SQL over columns of the left table, l.…, and of the right, r.…")
]
Names = Annotated[tuple[str, str], _meaning(metavar="LEFT RIGHT", help="What the condition calls the two tables.")]
AllowCross = Annotated[
    bool, _meaning("--allow-cross", help="Let a condition pass that ties no left row to any right row.")
]
Agg = Annotated[
    list[str] | None,
    _meaning(
        metavar="COLUMN=FUNCTIONS",
        help="Aggregates of a right column in place of the matches, such as value=mean,max; '*=count' counts the "
        "matches. Functions: count, sum, mean, min, max, std, first, last, median, quantile:0.9, count_distinct, any, "
        "all, weighted_mean:COLUMN, list, arg_min:COLUMN, arg_max:COLUMN. May be repeated.",
    ),
]

Direction = Annotated[
    str,
    _meaning(
        metavar="SIDE",
        help="Which right row to take: backward (the last one before), forward (the first one after) or nearest.",
    ),
]
Tolerance = Annotated[
    str | None,
    _meaning(
        metavar="DISTANCE",
        help="The greatest distance that matches: a duration such as 50ms or 1h30m, a number, or a left column.",
    ),
]
ExactMatches = Annotated[bool, _meaning("--exact-matches/--no-exact-matches", help="Whether an equal --on matches.")]
How = Annotated[
    str, _meaning(metavar="KIND", help="Which rows to keep, as in SQL: left, inner, right, full, semi or anti.")
]
HowAll = Annotated[
    str | None,
    _meaning(
        metavar="KIND",
        help="Which rows to keep, as in SQL: inner (the default), left (the default with --agg), right, full, semi or "
        "anti.",
    ),
]
Condition = Annotated[
    str | None,
    _meaning(
        "--where",
        metavar="SQL",
        help="What has to be true besides, over columns of the left table, l.…, and of the right, r.…",
    ),
]
NullsEqual = Annotated[bool, _meaning("--nulls-equal", help="Let nulls match each other.")]
Matches = Annotated[int, _meaning(metavar="COUNT", help="The most right rows for one left row.")]
OrderBy = Annotated[
    list[str] | None,
    _meaning(
        metavar=_COLUMN,
        help="Right column that decides among right rows at the same --on, the greatest wins; may be repeated.",
    ),
]
Ties = Annotated[
    str,
    _meaning(
        metavar="RULE",
        help="Among right rows at the same --on: take the greatest, the first or last of the table or by --order-by, "
        "or stop with an error.",
    ),
]
Known = Annotated[
    tuple[str, str] | None,
    _meaning(
        metavar="RIGHT LEFT",
        help="To match no right row before it was known: the right column that says since when, and the left one that "
        "says up to when.",
    ),
]
Prefer = Annotated[
    str,
    _meaning(metavar="WHICH", help="Of two right rows at the same distance: the earlier or the later is the nearest."),
]

Output = Annotated[
    Path | None,
    _files(
        "--output",
        "-o",
        metavar="PATH",
        help="Where to write, in the format of its ending: .parquet (a folder, if Spark writes), .csv, .tsv, .json or "
        ".arrow; - for standard output, as CSV. Without it, the first rows are shown.",
    ),
]
Overwrite = Annotated[bool, _files("--overwrite", help="Replace the output if it exists.")]
InputFormat = Annotated[
    str | None,
    _files(
        "--format",
        metavar="NAME",
        help="Format of both inputs, where their endings do not say: parquet, csv, tsv, json (one object per line, or "
        "a list of objects) or arrow.",
    ),
]
OutputFormat = Annotated[
    str | None,
    _files(
        "--to",
        metavar="NAME",
        help="Format of the output, where its ending does not say: parquet, csv, tsv, json or arrow.",
    ),
]
Delimiter = Annotated[str, _files(metavar="CHARACTER", help="What is between two fields of CSV; \\t for a tab.")]
Header = Annotated[
    bool,
    _files(
        "--header/--no-header",
        help="Whether the first line of CSV names the columns; they are f0, f1 and so on otherwise.",
    ),
]
Types = Annotated[
    list[str] | None,
    _files(
        "--type",
        metavar="COLUMN=TYPE",
        help="What a column of CSV or JSON is read as, such as id=decimal(30,0) or code=string; may be repeated.",
    ),
]
AllText = Annotated[
    bool, _files("--all-text", help="Read columns of CSV as text, but for those that order rows or have a --type.")
]
Casts = Annotated[
    list[str] | None,
    _files(
        "--cast",
        metavar="COLUMN=TYPE",
        help="What a column of any format is converted to before the join; may be repeated.",
    ),
]
Nulls = Annotated[
    list[str] | None,
    _files("--null", metavar="TEXT", help="What stands for null in CSV, beside an empty field; may be repeated."),
]
Rows = Annotated[int, _files(metavar="COUNT", min=0, help="How many rows to show.")]

Engine = Annotated[str, _run(metavar="NAME", help="Where to join: local (in this process) or spark.")]
Algorithm = Annotated[str, _run(metavar="NAME", help="How to join, if the planner is not to choose.")]
Memory = Annotated[
    str | None, _run(metavar="SIZE", help="How much memory the join may take, such as 2GB; the rest goes to disk.")
]
Json = Annotated[
    bool,
    _run(
        "--json",
        help="Write what became of it to standard output as one JSON object, with the plan and the report if they are "
        "asked for.",
    ),
]
Explain = Annotated[bool, _run("--explain", help="Show what runs, why, and what else was weighed.")]
Report = Annotated[
    bool,
    _run(
        "--report", help="Show how many rows matched, why others did not, and how far matches are; joins a second time."
    ),
]
