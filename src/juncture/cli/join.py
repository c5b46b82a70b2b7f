"""`juncture join`: a command for each kind of join, over files."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import typer

from juncture.cli import options
from juncture.cli.run import Request, run
from juncture.errors import SpecError
from juncture.spec.asof import Asof

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Join two tables that are in files.", rich_markup_mode="rich")


@app.callback()
def joins() -> None:
    """Join two tables that are in files: Parquet, CSV or JSON with one object per line."""


@app.command("asof")
def asof(
    left: options.Left,
    right: options.Right,
    on: options.On = None,
    left_on: options.LeftOn = None,
    right_on: options.RightOn = None,
    by: options.By = None,
    left_by: options.LeftBy = None,
    right_by: options.RightBy = None,
    suffix: options.Suffix = "_right",
    coalesce: options.Coalesce = True,
    direction: options.Direction = "backward",
    tolerance: options.Tolerance = None,
    exact_matches: options.ExactMatches = True,
    how: options.How = "left",
    matches: options.Matches = 1,
    order_by: options.OrderBy = None,
    ties: options.Ties = "greatest",
    output: options.Output = None,
    overwrite: options.Overwrite = False,
    input_format: options.InputFormat = None,
    nulls: options.Nulls = None,
    rows: options.Rows = 10,
    engine: options.Engine = "local",
    algorithm: options.Algorithm = "auto",
    explain: options.Explain = False,
    report: options.Report = False,
) -> None:
    """Match each left row with the right row that was in force at its time.

    [dim]juncture join asof trades.parquet quotes.parquet --on ts --by symbol
    juncture join asof frames.csv 'telemetry/*.csv' --on ts -o out.parquet --report
    juncture join asof a.json b.json --on ts --direction nearest --tolerance 5s[/dim]
    """
    arguments: dict[str, Any] = {
        "on": on,
        "left_on": left_on,
        "right_on": right_on,
        "by": by,
        "left_by": left_by,
        "right_by": right_by,
        "suffix": suffix,
        "coalesce": coalesce,
        "direction": direction,
        "tolerance": _tolerance(tolerance),
        "allow_exact_matches": exact_matches,
        "how": how,
        "matches": matches,
        "order_by": order_by or (),
        "ties": ties,
    }
    run(
        Asof.from_dict({name: value for name, value in arguments.items() if value is not None}),
        Request(
            left=left,
            right=right,
            output=output,
            overwrite=overwrite,
            input_format=input_format,
            nulls=tuple(nulls or ()),
            rows=rows,
            engine=engine,
            algorithm=algorithm,
            explain=explain,
            report=report,
        ),
    )


def _tolerance(text: str | None) -> int | Decimal | str | None:
    """Return a number if the text is one, exactly; what else it may mean is for the spec to say.

    Raises
    ------
    SpecError
        If it is empty.
    """
    if text is None:
        return None
    if not text.strip():
        raise SpecError("--tolerance is empty. Expected a duration such as 5m, a number, or a left column.")
    if re.fullmatch(r"\s*[+-]?\d+\s*", text):
        return int(text)
    return Decimal(text.strip()) if re.fullmatch(r"\s*[+-]?(\d*\.?\d+|\d+\.)([eE][+-]?\d+)?\s*", text) else text
