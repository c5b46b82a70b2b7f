"""`juncture join`: a command for each kind of join, over files."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from juncture.cli import options
from juncture.cli.options import Request, check_there, with_parameters
from juncture.errors import SpecError

if TYPE_CHECKING:
    from juncture.spec.aggregate import Call
    from juncture.spec.kinds import Spec

ParsedJoin: TypeAlias = "tuple[Spec, Request]"
"""The parsed arguments of a command."""

COMMANDS: dict[str, Callable[..., ParsedJoin]] = {}
"""The function that parses the arguments of each command."""

_OF_ONE_KIND = ("report",)  # options that only some kinds of join have

app = typer.Typer(no_args_is_help=True, help="Join two files.", rich_markup_mode="rich")


@app.callback()
def joins() -> None:
    """Join two files or pipes: Parquet, CSV, JSON or Arrow."""


def _command(name: str, *also: str) -> Callable[[Callable[..., Spec]], Callable[..., Spec]]:
    """Register a command for a kind of join: two tables, the options of the decorated function, and shared ones.

    The function returns the spec. ``also`` names options that only some kinds share.
    """

    def register(make: Callable[..., Spec]) -> Callable[..., Spec]:
        # Parameters are read without importing the return type.
        spec_parameters = signature(make, eval_str=True, locals={"Spec": Any}).parameters
        shared = signature(Request, eval_str=True).parameters
        sides = [shared[side] for side in ("left", "right")]
        rest = [
            each
            for each in shared.values()
            if each not in sides and (each.name not in _OF_ONE_KIND or each.name in also)
        ]

        def read(**arguments: Any) -> ParsedJoin:
            # Most modules are imported from here on, so that errors in arguments are reported at once.
            for side in ("left", "right"):
                check_there(arguments[side], side)
            request = {each: arguments[each] for each in shared if each in arguments}
            return make(**{each: arguments[each] for each in spec_parameters}), Request(**request)

        def command(**arguments: Any) -> None:
            parsed = read(**arguments)
            from juncture.cli.run import run

            run(*parsed)

        parameters = [*sides, *spec_parameters.values(), *rest]
        COMMANDS[name] = with_parameters(read, parameters, make.__doc__)
        app.command(name)(with_parameters(command, parameters, make.__doc__))
        return make

    return register


def _spec(kind: type[Spec], values: dict[str, Any], **read: Any) -> Spec:
    return kind.from_dict({name: value for name, value in (values | read).items() if value is not None})


@_command("asof", "report")
def asof(
    on: options.OnAll = None,
    left_on: options.LeftBy = None,
    right_on: options.RightBy = None,
    by: options.By = None,
    left_by: options.LeftBy = None,
    right_by: options.RightBy = None,
    suffix: options.Suffix = "_right",
    coalesce: options.Coalesce = True,
    direction: options.Direction = "backward",
    tolerance: options.Tolerance = None,
    allow_exact_matches: options.AllowExactMatches = True,
    how: options.How = "left",
    matches: options.Matches = 1,
    order_by: options.OrderBy = None,
    ties: options.Ties = "greatest",
    prefer: options.Prefer = "earlier",
    nulls_equal: options.NullsEqual = False,
    available_at: options.AvailableAt = None,
    where: options.Condition = None,
) -> Spec:
    """Match each left row with the latest, next or nearest right row.

    [dim]juncture join asof trades.parquet quotes.parquet --on ts --by symbol
    juncture join asof frames.csv 'telemetry/*.csv' --on ts -o out.parquet --report
    juncture join asof a.json b.json --on ts --direction nearest --tolerance 5s[/dim]
    """
    values = locals()
    from juncture.spec.asof import Asof

    return _spec(Asof, values, tolerance=options.distance_of("--tolerance", tolerance), order_by=order_by or ())


@_command("range")
def range_(
    on: options.On = None,
    left_on: options.LeftOn = None,
    right_on: options.RightOn = None,
    by: options.By = None,
    left_by: options.LeftBy = None,
    right_by: options.RightBy = None,
    suffix: options.Suffix = "_right",
    lower: options.Lower = None,
    upper: options.Upper = None,
    closed: options.Closed = "both",
    how: options.HowAll = None,
    agg: options.Agg = None,
) -> Spec:
    """Match each left row with all right rows in a window around it.

    [dim]juncture join range events.parquet readings.parquet --on ts --lower -1h --upper 0
    juncture join range a.csv b.csv --on x --lower -5 --upper 5 --by k --agg value=mean,max -o out.parquet[/dim]
    """
    values = locals()
    limits = {"lower": options.distance_of("--lower", lower), "upper": options.distance_of("--upper", upper)}
    from juncture.spec.range import Range

    return _spec(Range, values, agg=_aggregates(agg), **limits)


@_command("overlap")
def overlap(
    left_interval: options.LeftInterval,
    right_interval: options.RightInterval,
    by: options.By = None,
    left_by: options.LeftBy = None,
    right_by: options.RightBy = None,
    suffix: options.Suffix = "_right",
    closed: options.Closed = "left",
    how: options.HowAll = None,
    agg: options.Agg = None,
) -> Spec:
    """Match each left interval with all right intervals that overlap it.

    [dim]juncture join overlap calls.csv cuts.csv --left-interval start end --right-interval from to --by cell[/dim]
    """
    values = locals()
    intervals = {"left_interval": _interval(left_interval), "right_interval": _interval(right_interval)}
    from juncture.spec.overlap import Overlap

    return _spec(Overlap, values, agg=_aggregates(agg), **intervals)


@_command("where")
def where(
    predicate: options.Predicate,
    by: options.By = None,
    left_by: options.LeftBy = None,
    right_by: options.RightBy = None,
    suffix: options.Suffix = "_right",
    how: options.HowAll = None,
    agg: options.Agg = None,
    allow_cross: options.AllowCross = False,
    names: options.Names = ("l", "r"),
) -> Spec:
    """Match rows for which a condition holds.

    [dim]juncture join where l.parquet r.parquet 'l.k = r.k AND l.a > r.b - 3 AND l.a < r.b + 10'
    juncture join where sales.csv terms.csv 's.day >= t.start AND s.price < t.cap' --names s t --explain[/dim]
    """
    values = locals()
    from juncture.spec.where import Where

    return _spec(Where, values, agg=_aggregates(agg))


@_command("equi")
def equi(
    on: options.Keys = None,
    left_on: options.LeftBy = None,
    right_on: options.RightBy = None,
    suffix: options.Suffix = "_right",
    coalesce: options.CoalesceKeys = True,
    how: options.HowAll = None,
    agg: options.Agg = None,
    condition: options.Condition = None,
    nulls_equal: options.NullsEqual = False,
) -> Spec:
    """Match rows whose keys are equal.

    [dim]juncture join equi customers.parquet sales.parquet --left-on id --right-on buyer_id --how left
    juncture join equi a.csv b.csv --on k --on day --where 'l.price < r.limit' --memory 2GB -o out.parquet[/dim]
    """
    values = locals()
    from juncture.spec.equi import Equi

    return _spec(Equi, values, where=values.pop("condition"), agg=_aggregates(agg))


def _interval(names: tuple[str, str]) -> tuple[str | None, str | None]:
    start, end = names
    return start or None, end or None


def _aggregates(texts: list[str] | None) -> dict[str, list[Call]] | None:
    if not texts:
        return None
    aggregates: dict[str, list[Call]] = {}
    for text in texts:
        # Functions have no equals sign, columns may.
        column, _, functions = text.rpartition("=")
        if not column or not functions.strip():
            raise SpecError(
                f"--agg {text!r} is not COLUMN=FUNCTIONS. Pass a column and functions, for example value=mean,max.",
                name="JN-ARGUMENT-VALUE",
            )
        if column in aggregates:
            raise SpecError(
                f"--agg names column {column!r} twice. List its functions in one option: {column}=mean,max.",
                name="JN-ARGUMENT-CONFLICT",
            )
        aggregates[column] = [_function(each.strip()) for each in functions.split(",")]
    return aggregates


def _function(text: str) -> Call:
    """Return a function, with the argument after a colon if there is one."""
    function, colon, argument = text.partition(":")
    if not colon:
        return text
    is_number = re.fullmatch(r"\d*\.?\d+", argument.strip()) and function == "quantile"
    return function, float(argument) if is_number else argument.strip()
