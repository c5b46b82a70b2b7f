"""Aggregates over the matches of each left row: ``agg={"value": ["mean", "max"], "*": "count"}``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import SchemaError, SpecError
from juncture.spec.arguments import check_choice, check_name
from juncture.spec.nulls import typed
from juncture.spec.schema import How, check_columns, check_order, check_ties, plain_type

Function = Literal["count", "sum", "mean", "min", "max", "std", "first", "last"]
Agg: TypeAlias = Mapping[str, str | Sequence[str]]
"""For each right column, or ``"*"`` for the matches themselves, a function or several."""

ROWS = "*"


@dataclass(frozen=True)
class Aggregate:
    """One aggregate over the matches of a left row.

    Nulls are skipped. Without a value ``count`` is 0 and all others are null. NaN is greater than all other floats.

    Attributes
    ----------
    name
        Its name in the output.
    column
        The right column; None to count the matches themselves.
    function
        - ``count``: how many values;
        - ``sum``: exact for integers and decimals, in double-double arithmetic for floats;
        - ``mean``, ``std``: float64, the latter of a sample, null below two values;
        - ``min``, ``max``;
        - ``first``, ``last``: by the right ``on`` (of overlaps: the right start), then by the other right columns in
          schema order, nulls lowest, NaN highest.
    type
        Its type in the output.
    """

    name: str
    column: str | None
    function: Function
    type: pa.DataType


def freeze_aggregates(agg: Agg | None) -> dict[str, tuple[Function, ...]] | None:
    """Return a copy of the argument in one form, once no tables are needed to tell that it is right.

    Raises
    ------
    SpecError
        If it is not a mapping of names to functions, or has none.
    """
    if agg is None:
        return None
    if not isinstance(agg, Mapping) or not agg:
        raise SpecError(
            f'agg={agg!r} is not a mapping of right columns to functions, such as {{"value": ["mean", "max"]}} '
            'or {"*": "count"}.'
        )
    frozen = {}
    for column, given in agg.items():
        check_name("agg", column)
        functions = (given,) if isinstance(given, str) else given
        if not isinstance(functions, Sequence) or not functions or len(set(map(str, functions))) != len(functions):
            raise SpecError(f"agg[{column!r}]={given!r}: expected a function, or a list of different ones.")
        for function in functions:
            check_choice(f"agg[{column!r}]", function, get_args(Function))
            if column == ROWS and function != "count":
                raise SpecError(f'agg["*"]={function!r}: matches can be counted only. Name a column for {function}.')
        frozen[column] = cast("tuple[Function, ...]", tuple(functions))
    return frozen


def aggregate_how(how: How | None, agg: Agg | None) -> How:
    """Return which rows a join keeps, where ``how=None`` stands for the usual ones.

    Raises
    ------
    SpecError
        If the join aggregates, and ``how`` is neither ``left`` nor ``inner``.
    """
    if agg is None:
        return how or "inner"
    if how not in (None, "left", "inner"):
        raise SpecError(
            f"how={how!r} does not go with agg=, which gives one row per left row. Expected 'left' (the default), or "
            "'inner' to drop left rows without a match."
        )
    return how or "left"


def resolve_aggregates(
    agg: Agg | None, left: pa.Schema, right: pa.Schema, tie_columns: Sequence[str], suffix: str
) -> tuple[Aggregate, ...]:
    """Return the aggregates with their names and types in the output.

    Parameters
    ----------
    agg
        What was asked for.
    left, right
        The schemas of the tables.
    tie_columns
        The right columns that decide which of several equal matches is the first.
    suffix
        Added to names that the left table has too.

    Raises
    ------
    SchemaError
        If a column is missing, its type lacks the function, or a name is taken even with the suffix.
    """
    frozen = freeze_aggregates(agg) or {}
    check_columns(right, [column for column in frozen if column != ROWS], argument="agg", side="right")
    taken, aggregates = set(left.names), []
    for column, functions in frozen.items():
        for function in functions:
            name = function if column == ROWS else f"{column}_{function}"
            shown = name if name not in taken else name + suffix
            if shown in taken:
                raise SchemaError(
                    f"The {function} of {column!r} would be named {shown!r}, which is taken too. "
                    f"Pass another suffix= than {suffix!r}, or rename the column."
                )
            taken.add(shown)
            if column == ROWS:
                aggregates.append(Aggregate(shown, None, function, pa.int64()))
            else:
                aggregates.append(Aggregate(shown, column, function, _result_type(function, right.field(column))))
    if _have_order(aggregates):
        check_ties(right, tie_columns)
    return tuple(aggregates)


def typed_aggregated(agg: Agg | None, right: pa.Schema) -> pa.Schema:
    """Return a right schema whose aggregated columns of the null type are integers, which all functions take."""
    return typed(right, dict.fromkeys(agg or (), pa.int64()))


def aggregated_columns(aggregates: Sequence[Aggregate], tie_columns: Sequence[str]) -> tuple[str, ...]:
    """Return the right columns that aggregates look at; those that order ties only where these decide.

    Examples
    --------
    >>> total = Aggregate("value_sum", "value", "sum", pa.int64())
    >>> aggregated_columns([total], ["value", "name"])
    ('value',)
    """
    own = [each.column for each in aggregates if each.column is not None]
    return tuple(dict.fromkeys((*own, *(tie_columns if _have_order(aggregates) else ()))))


def _have_order(aggregates: Sequence[Aggregate]) -> bool:
    """Tell whether the order of the matches makes a difference."""
    return any(each.function in ("first", "last") for each in aggregates)


def _result_type(function: Function, field: pa.Field) -> pa.DataType:
    """Return the type of a function of a column."""
    data_type = plain_type(field.type)
    is_number = pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type)
    if function == "count":
        return pa.int64()
    if function in ("first", "last"):
        return field.type
    if function in ("min", "max"):
        check_order(field, asked=f"agg={{{field.name!r}: {function!r}}}", side="right")
        if is_number or pat.is_date(data_type) or pat.is_timestamp(data_type) or pat.is_duration(data_type):
            return field.type
        takes = "numbers, dates, timestamps and durations"
    else:
        if is_number:
            return _sum_type(data_type) if function == "sum" else pa.float64()
        takes = "numbers"
    raise SchemaError(
        f"agg asks for the {function} of the right column {field.name!r} of type {field.type}, but {function} takes "
        f"{takes}. Cast the column first, or ask for its count, first or last."
    )


def _sum_type(data_type: pa.DataType) -> pa.DataType:
    if pat.is_decimal256(data_type):
        return pa.decimal256(76, data_type.scale)
    if pat.is_decimal(data_type):
        return pa.decimal128(38, data_type.scale)
    if pat.is_floating(data_type):
        return pa.float64()
    return data_type if pat.is_uint64(data_type) else pa.int64()
