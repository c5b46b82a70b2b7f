"""The options of joins, with what they mean to someone who reads ``--help``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_COLUMNS = "Columns"
_MEANING = "Meaning"
_FILES = "Files"
_RUN = "Run"

_COLUMN = "COLUMN"

Left = Annotated[str, typer.Argument(help="The table whose rows get a match: a file, a folder or a glob.")]
Right = Annotated[str, typer.Argument(help="The table in which matches are looked up.")]


def _column(help_text: str) -> Any:
    return typer.Option(metavar=_COLUMN, help=help_text, rich_help_panel=_COLUMNS)


On = Annotated[str | None, _column("Column of both tables that orders them: a number, a date or a time.")]
LeftOn = Annotated[str | None, _column("Its name on the left, where they differ.")]
RightOn = Annotated[str | None, _column("Its name on the right.")]
By = Annotated[list[str] | None, _column("Column that has to be equal; repeat it for several.")]
LeftBy = Annotated[list[str] | None, _column("Its name on the left, where they differ.")]
RightBy = Annotated[list[str] | None, _column("Its name on the right.")]
Suffix = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="Added to the name of a right column that the left has too.", rich_help_panel=_COLUMNS
    ),
]
Coalesce = Annotated[
    bool,
    typer.Option(
        "--coalesce/--no-coalesce",
        help="Whether to leave out the right column that --on names.",
        rich_help_panel=_COLUMNS,
    ),
]

Keys = Annotated[list[str] | None, _column("Column of both tables that has to be equal; repeat it for several.")]
LeftKeys = Annotated[list[str] | None, _column("Its name on the left, where they differ.")]
RightKeys = Annotated[list[str] | None, _column("Its name on the right.")]
CoalesceKeys = Annotated[
    bool,
    typer.Option(
        "--coalesce/--no-coalesce",
        help="Whether to leave out the right columns that equal left ones.",
        rich_help_panel=_COLUMNS,
    ),
]

Lower = Annotated[
    str | None,
    typer.Option(
        metavar="DISTANCE",
        help="Where the window starts, from the left --on: a duration such as -1h, a number, or a left column. "
        "Without it, the window is open on this side.",
        rich_help_panel=_MEANING,
    ),
]
Upper = Annotated[
    str | None, typer.Option(metavar="DISTANCE", help="Where it ends, likewise.", rich_help_panel=_MEANING)
]


def _interval(side: str) -> Any:
    return typer.Option(
        metavar="START END",
        help=f"Columns in which intervals of the {side} start and end; '' for one of them where all are unbounded.",
        rich_help_panel=_COLUMNS,
    )


LeftInterval = Annotated[tuple[str, str], _interval("left")]
RightInterval = Annotated[tuple[str, str], _interval("right")]
Closed = Annotated[
    str,
    typer.Option(metavar="ENDS", help="Which ends belong to it: both, left, right or none.", rich_help_panel=_MEANING),
]
Predicate = Annotated[
    str, typer.Argument(help="The condition: SQL over columns of the left table, l.…, and of the right, r.…")
]
Names = Annotated[
    tuple[str, str],
    typer.Option(metavar="LEFT RIGHT", help="What the condition calls the two tables.", rich_help_panel=_MEANING),
]
AllowCross = Annotated[
    bool,
    typer.Option(
        "--allow-cross",
        help="Let a condition pass that ties no left row to any right row.",
        rich_help_panel=_MEANING,
    ),
]
Agg = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=FUNCTIONS",
        help="Aggregates of a right column in place of the matches, such as value=mean,max; '*=count' counts the "
        "matches. Functions: count, sum, mean, min, max, std, first, last. May be repeated.",
        rich_help_panel=_MEANING,
    ),
]

Direction = Annotated[
    str,
    typer.Option(
        metavar="SIDE",
        help="Which right row to take: backward (the last one before), forward (the first one after) or nearest.",
        rich_help_panel=_MEANING,
    ),
]
Tolerance = Annotated[
    str | None,
    typer.Option(
        metavar="DISTANCE",
        help="The greatest distance that matches: a duration such as 50ms or 1h30m, a number, or a left column.",
        rich_help_panel=_MEANING,
    ),
]
ExactMatches = Annotated[
    bool,
    typer.Option("--exact-matches/--no-exact-matches", help="Whether an equal --on matches.", rich_help_panel=_MEANING),
]
How = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help="Which rows to keep, as in SQL: left, inner, right, full, semi or anti.",
        rich_help_panel=_MEANING,
    ),
]
HowAll = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Which rows to keep, as in SQL: inner (the default), left (the default with --agg), right, full, semi or "
        "anti.",
        rich_help_panel=_MEANING,
    ),
]
Condition = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="What has to be true besides, over columns of the left table, l.…, and of the right, r.…",
        rich_help_panel=_MEANING,
    ),
]
NullsEqual = Annotated[
    bool, typer.Option("--nulls-equal", help="Let nulls match each other.", rich_help_panel=_MEANING)
]
Matches = Annotated[
    int, typer.Option(metavar="COUNT", help="The most right rows for one left row.", rich_help_panel=_MEANING)
]
OrderBy = Annotated[
    list[str] | None,
    typer.Option(
        metavar=_COLUMN,
        help="Right column that decides among right rows at the same --on, the greatest wins; may be repeated.",
        rich_help_panel=_MEANING,
    ),
]
Ties = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help="Among right rows at the same --on: take the greatest, the first or last of the table or by --order-by, "
        "or stop with an error.",
        rich_help_panel=_MEANING,
    ),
]
Known = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="RIGHT LEFT",
        help="To match no right row before it was known: the right column that says since when, and the left one that "
        "says up to when.",
        rich_help_panel=_MEANING,
    ),
]
Prefer = Annotated[
    str,
    typer.Option(
        metavar="WHICH",
        help="Of two right rows at the same distance: the earlier or the later is the nearest.",
        rich_help_panel=_MEANING,
    ),
]

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Where to write, in the format of its ending: .parquet (a folder, if Spark writes), .csv, .tsv, .json or "
        ".arrow; - for standard output, as CSV. Without it, the first rows are shown.",
        rich_help_panel=_FILES,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the output if it exists.", rich_help_panel=_FILES)
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of both inputs, where their endings do not say: parquet, csv, tsv, json (one object per line, or "
        "a list of objects) or arrow.",
        rich_help_panel=_FILES,
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="NAME",
        help="Format of the output, where its ending does not say: parquet, csv, tsv, json or arrow.",
        rich_help_panel=_FILES,
    ),
]
Delimiter = Annotated[
    str,
    typer.Option(metavar="CHARACTER", help="What is between two fields of CSV; \\t for a tab.", rich_help_panel=_FILES),
]
Header = Annotated[
    bool,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of CSV names the columns; they are f0, f1 and so on otherwise.",
        rich_help_panel=_FILES,
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="COLUMN=TYPE",
        help="What a column of CSV or JSON is read as, such as id=decimal(30,0) or code=string; may be repeated.",
        rich_help_panel=_FILES,
    ),
]
AllText = Annotated[
    bool,
    typer.Option(
        "--all-text", help="Read every column of CSV as text, but for those with a --type.", rich_help_panel=_FILES
    ),
]
Casts = Annotated[
    list[str] | None,
    typer.Option(
        "--cast",
        metavar="COLUMN=TYPE",
        help="What a column of any format is converted to before the join; may be repeated.",
        rich_help_panel=_FILES,
    ),
]
Nulls = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="TEXT",
        help="What stands for null in CSV, beside an empty field; may be repeated.",
        rich_help_panel=_FILES,
    ),
]
Rows = Annotated[int, typer.Option(metavar="COUNT", min=0, help="How many rows to show.", rich_help_panel=_FILES)]

Engine = Annotated[
    str,
    typer.Option(metavar="NAME", help="Where to join: local (in this process) or spark.", rich_help_panel=_RUN),
]
Algorithm = Annotated[
    str, typer.Option(metavar="NAME", help="How to join, if the planner is not to choose.", rich_help_panel=_RUN)
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="How much memory the join may take, such as 2GB; the rest goes to disk.",
        rich_help_panel=_RUN,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Write what became of it to standard output as one JSON object, with the plan and the report if they are "
        "asked for.",
        rich_help_panel=_RUN,
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show what runs, why, and what else was weighed.", rich_help_panel=_RUN)
]
Report = Annotated[
    bool,
    typer.Option(
        "--report",
        help="Show how many rows matched, why others did not, and how far matches are; joins a second time.",
        rich_help_panel=_RUN,
    ),
]
