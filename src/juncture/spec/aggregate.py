"""Aggregates over the matches of each left row: ``agg={"value": ["mean", "max"], "*": "count"}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.schemas import check_columns, check_order, check_ties
from juncture.columnar.types import plain_type
from juncture.errors import SchemaError, SpecError, wrong_type
from juncture.spec.arguments import check_choice, check_name
from juncture.spec.compared import can_be_key
from juncture.spec.schema import How, free_name, typed

Function = Literal[
    "count",
    "sum",
    "mean",
    "min",
    "max",
    "std",
    "first",
    "last",
    "median",
    "quantile",
    "count_distinct",
    "any",
    "all",
    "weighted_mean",
    "list",
    "arg_min",
    "arg_max",
]
Call: TypeAlias = str | tuple[str, str | float]
"""A function, with its argument if it has one: ``"mean"``, ``("quantile", 0.9)``, ``("arg_max", "price")``."""
Agg: TypeAlias = Mapping[str, Call | Sequence[Call]]
"""The functions of each right column; ``"*"`` stands for the matches."""

ROWS = "*"

CHOSEN = frozenset({"min", "max", "first", "last", "arg_min", "arg_max"})
"""The functions whose result is one of the values."""

OF_TWO = frozenset({"weighted_mean", "arg_min", "arg_max"})
"""The functions with a second column, which their argument names."""

_ORDERED = frozenset({"first", "last", "list", "arg_min", "arg_max"})
"""The functions that depend on the order of the matches."""

QUANTILE = 0.9
"""The example in messages."""

_TAKES = {"quantile": "a share such as 0.9", **dict.fromkeys(sorted(OF_TWO), "a right column")}


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the matches of a left row.

    Nulls are skipped. Without values, counts are 0, a ``list`` is empty, and all others are null. NaN is greater than
    all other floats. Matches are ordered by the right ``on`` (of overlaps: the right start; of predicate and equality
    joins: nothing), then by the other right columns in schema order, with nulls lowest and NaN highest.

    - ``sum``: exact for integers and decimals, in double-double arithmetic for floats
    - ``mean``, ``std``: float64; ``std`` is of a sample, and null below two values
    - ``first``, ``last``, ``list``: in the order of the matches
    - ``median``, ``quantile``: float64, interpolated between the two adjacent values
    - ``count_distinct``: by the equality of keys
    - ``weighted_mean``: float64, over rows with a weight; null if the weights add up to 0
    - ``arg_min``, ``arg_max``: the value of the first match where the second column is least or greatest
    """

    name: str
    column: str | None  # None to count the matches
    function: Function
    type: pa.DataType
    argument: str | float | None = None  # the quantile, or the name of the second column
    window: str | None = None  # None unless the join has several windows

    @property
    def other(self) -> str | None:
        """The second column that the function reads, or None."""
        return str(self.argument) if self.function in OF_TWO else None


def freeze_aggregates(agg: Agg | None) -> dict[str, tuple[Call, ...]] | None:
    """Validate ``agg`` without schemas, and return a copy in one form: ``{"v": ("mean", ("quantile", 0.9))}``."""
    if agg is None:
        return None
    if not isinstance(agg, Mapping) or not agg:
        example = 'for example agg={"value": ["mean", "max"]} or agg={"*": "count"}'
        raise wrong_type("agg", agg, "a mapping of right columns to functions", example, name="JN-AGGREGATE-FORM")
    frozen = {}
    for column, functions in agg.items():
        check_name("agg", column)
        is_list = isinstance(functions, Sequence) and not isinstance(functions, str)
        calls = list(functions) if is_list and not _is_call(functions) else [functions]
        if not calls or (not is_list and not isinstance(functions, str)) or len(set(map(str, calls))) != len(calls):
            raise SpecError(
                f"agg[{column!r}]={functions!r} is not a function or a list of different functions. Expected for "
                'example "mean" or ["min", "max"].',
                name="JN-AGGREGATE-FORM",
            )
        frozen[column] = tuple(_frozen_call(column, call) for call in calls)
    return frozen


def _is_call(functions: Any) -> bool:
    """Return whether a sequence is a function with its argument, rather than several functions."""
    return bool(functions) and isinstance(functions[0], str) and functions[0] in _TAKES


def _frozen_call(column: str, call: Any) -> Call:
    """Validate a function and its argument."""
    parts: list[Any] = [call] if isinstance(call, str) or not isinstance(call, Sequence) or not call else list(call)
    function = parts[0]
    check_choice(f"agg[{column!r}]", function, get_args(Function))
    if column == ROWS and function != "count":
        raise SpecError(
            f'agg["*"]={function!r} is not "count", the only function of "*". To aggregate values, name a right '
            f'column, such as agg={{"value": {function!r}}}.',
            name="JN-AGGREGATE-STAR",
        )
    if function not in _TAKES:
        if len(parts) > 1:
            raise SpecError(
                f"agg[{column!r}]={call!r} has an argument, but {function} takes none. Pass agg={{{column!r}: "
                f"{function!r}}}.",
                name="JN-AGGREGATE-ARGUMENT",
            )
        return str(function)
    form = f'("quantile", {QUANTILE})' if function == "quantile" else f'("{function}", "column")'
    if len(parts) != 2:
        raise SpecError(
            f"agg[{column!r}]={call!r} needs an argument: {_TAKES[function]}. Pass for example agg={{{column!r}: "
            f"{form}}}.",
            name="JN-AGGREGATE-ARGUMENT",
        )
    argument = parts[1]
    if function == "quantile":
        is_number = isinstance(argument, int | float) and not isinstance(argument, bool)
        if not is_number or not 0 <= argument <= 1:
            raise SpecError(
                f"agg[{column!r}]={call!r} is not a quantile between 0 and 1. Pass for example agg={{{column!r}: "
                f"{form}}}.",
                name="JN-AGGREGATE-ARGUMENT",
            )
        return function, float(argument)
    check_name(f"agg[{column!r}]", argument)
    return function, argument


def aggregate_how(how: How | None, agg: Agg | None) -> How:
    """Return which rows a join keeps; the default is ``left`` with aggregates and ``inner`` without."""
    if agg is None:
        return how or "inner"
    if how not in (None, "left", "inner"):
        raise SpecError(
            f"how={how!r} does not combine with agg=, which returns one row per left row. Pass how='left' (the "
            "default), or how='inner' to drop left rows without a match.",
            name="JN-ARGUMENT-CONFLICT",
        )
    return how or "left"


def resolve_aggregates(
    agg: Agg | None,
    left: pa.Schema,
    right: pa.Schema,
    tie_columns: Sequence[str],
    suffix: str,
    windows: Sequence[str | None] = (None,),
) -> tuple[Aggregate, ...]:
    """Return the aggregates with their names and types in the output; ``tie_columns`` order equal matches.

    ``windows`` are the names of the windows, which end the output names; a single None if there is one window.
    """
    frozen = freeze_aggregates(agg) or {}
    calls = [(column, _parts(call)) for column, functions in frozen.items() for call in functions]
    seconds = [str(argument) for _, (function, argument) in calls if function in OF_TWO]
    check_columns(right, [*(column for column in frozen if column != ROWS), *seconds], argument="agg", side="right")
    taken, aggregates = set(left.names), []
    for window, (column, (function, argument)) in product(windows, calls):
        ending = [] if window is None else [window]
        name = "_".join([*([] if column == ROWS else [column]), function, *_named(argument), *ending])
        output_name = free_name(name, suffix, taken, f"agg[{column!r}]={function!r}")
        if column == ROWS:
            aggregates.append(Aggregate(output_name, None, function, pa.int64(), window=window))
            continue
        if function in OF_TWO:
            _check_second(function, right.field(str(argument)))
        data_type = _result_type(function, right.field(column))
        aggregates.append(Aggregate(output_name, column, function, data_type, argument, window))
    if have_order(aggregates):
        check_ties(right, tie_columns)
    return tuple(aggregates)


def _parts(call: Call) -> tuple[Function, str | float | None]:
    function, argument = (call, None) if isinstance(call, str) else call
    return cast("Function", function), argument


def _named(argument: str | float | None) -> list[str]:
    """Return an argument as a part of an output name. A dot would need quoting in SQL."""
    if argument is None:
        return []
    return [argument if isinstance(argument, str) else f"{argument:g}".replace(".", "_")]


def typed_aggregated(agg: Agg | None, right: pa.Schema) -> pa.Schema:
    """Return a right schema whose aggregated columns of the null type have a type that their functions accept."""
    types: dict[str, pa.DataType] = {}
    for column, functions in (freeze_aggregates(agg) or {}).items():
        calls = [_parts(call) for call in functions]
        is_truth = all(function in ("any", "all") for function, _ in calls)
        types[column] = pa.bool_() if is_truth else pa.int64()
        types |= {str(argument): pa.int64() for function, argument in calls if function in OF_TWO}
    return typed(right, types)


def aggregated_columns(aggregates: Sequence[Aggregate], tie_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the right columns that aggregates read, including tie columns if the order matters."""
    return tuple(dict.fromkeys((*folded_columns(aggregates), *(tie_columns if have_order(aggregates) else ()))))


def folded_columns(aggregates: Sequence[Aggregate]) -> tuple[str, ...]:
    """Return the right columns whose values are aggregated."""
    named = [name for each in aggregates for name in (each.column, each.other) if name is not None]
    return tuple(dict.fromkeys(named))


def have_order(aggregates: Sequence[Aggregate]) -> bool:
    """Return whether any aggregate depends on the order of the matches."""
    return any(each.function in _ORDERED for each in aggregates)


def _result_type(function: Function, field: pa.Field) -> pa.DataType:
    """Return the type of a function of a column; raise SchemaError if it does not support the column."""
    data_type = plain_type(field.type)
    if function == "count":
        return pa.int64()
    if function in ("first", "last", "arg_min", "arg_max"):
        return field.type
    if function == "list":
        return pa.list_(field.type)
    if function == "count_distinct":
        if can_be_key(field.type):
            return pa.int64()
        takes = "a type with equality"
    elif function in ("any", "all"):
        if pat.is_boolean(data_type):
            return pa.bool_()
        takes = "booleans"
    elif function in ("min", "max"):
        if _has_least(field, f"agg[{field.name!r}]={function!r}"):
            return field.type
        takes = "numbers, dates, timestamps and durations"
    else:
        if _is_number(data_type):
            return _sum_type(data_type) if function == "sum" else pa.float64()
        takes = "numbers"
    raise SchemaError(
        f"agg[{field.name!r}]={function!r} needs {takes}, but the right column {field.name!r} is of type "
        f'{field.type}. Cast it first, or use "count", "first" or "last".',
        name="JN-AGGREGATE-TYPE",
    )


def _check_second(function: Function, field: pa.Field) -> None:
    """Raise SchemaError for weights that are not numbers, and for second columns without an order."""
    if function == "weighted_mean":
        fits, takes = _is_number(plain_type(field.type)), "numeric weights"
    else:
        fits = _has_least(field, f"agg={function!r} by {field.name!r}")
        takes = "numbers, dates, timestamps or durations"
    if not fits:
        raise SchemaError(
            f"{function} needs {takes} as its second column, but the right column {field.name!r} is of type "
            f"{field.type}. Cast it first, or name another column in agg=.",
            name="JN-AGGREGATE-TYPE",
        )


def _is_number(data_type: pa.DataType) -> bool:
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type))


def _has_least(field: pa.Field, purpose: str) -> bool:
    """Return whether the values of a column have a least one; raise SchemaError for ordered categories."""
    check_order(field, purpose=purpose, side="right")
    data_type = plain_type(field.type)
    is_time = pat.is_date(data_type) or pat.is_timestamp(data_type) or pat.is_duration(data_type)
    return _is_number(data_type) or bool(is_time)


def _sum_type(data_type: pa.DataType) -> pa.DataType:
    if pat.is_decimal256(data_type):
        return pa.decimal256(76, data_type.scale)
    if pat.is_decimal(data_type):
        return pa.decimal128(38, data_type.scale)
    if pat.is_floating(data_type):
        return pa.float64()
    return data_type if pat.is_uint64(data_type) else pa.int64()
