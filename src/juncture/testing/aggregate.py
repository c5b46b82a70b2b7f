"""Aggregates over the matches of each left row, one value after the other, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.spec.aggregate import Aggregate
from juncture.spec.overlap import ResolvedOverlap
from juncture.spec.range import ResolvedRange
from juncture.testing.output import assemble, gathered
from juncture.testing.rows import compare, tie_order, values


def aggregated_rows(
    join: ResolvedRange | ResolvedOverlap,
    left: pa.Table,
    right: pa.Table,
    matches: Iterable[list[int]],
    order: list[Any],
) -> pa.Table:
    """Return a row per left row: its columns, and the aggregates over its matches.

    Parameters
    ----------
    join, left, right
        The join.
    matches
        The right rows that each left row matches.
    order
        What orders the right rows for ``first`` and ``last``, before the tie columns do.

    Raises
    ------
    DataError
        If a sum does not fit its type.
    """
    numbered = [(row, others) for row, others in enumerate(matches) if others or join.how == "left"]
    tie_values = list(zip(*(values(right[name]) for name in join.tie_columns), strict=True))
    by_ties = tie_order(tie_values or [()] * right.num_rows)

    def by_rank(a: int, b: int) -> int:
        return compare(order[a], order[b]) or by_ties(a, b)

    ranked = [sorted(others, key=cmp_to_key(by_rank)) for _, others in numbered]
    schema = join.given_back(left.schema, right.schema)
    types = schema.types[len(join.output) :]
    columns = [_column(each, kind, right, ranked) for each, kind in zip(join.aggregates, types, strict=True)]
    return pa.table([*assemble(join, left, right, [(row, None) for row, _ in numbered]), *columns], schema=schema)


def _column(
    aggregate: Aggregate, data_type: pa.DataType, right: pa.Table, ranked: list[list[int]]
) -> pa.ChunkedArray | pa.Array:
    """Return an aggregate over each list of right rows, which come in the order of ``first`` and ``last``."""
    if aggregate.column is None:
        return pa.array([len(others) for others in ranked], aggregate.type)
    cells = values(right[aggregate.column])
    present = [[other for other in others if cells[other] is not None] for others in ranked]
    if aggregate.function in ("min", "max", "first", "last"):
        chosen = [_chosen(aggregate.function, others, cells) for others in present]
        return gathered([None if row is None else (right[aggregate.column], row) for row in chosen], data_type)
    results = [_number(aggregate, [cells[other] for other in others]) for others in present]
    try:
        return _array(results, aggregate.type)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise DataError(f"A sum of {aggregate.column!r} does not fit {aggregate.type}.") from error


def _chosen(function: str, others: list[int], cells: list[Any]) -> int | None:
    """Return the row whose value is the answer."""
    if not others:
        return None
    if function in ("first", "last"):
        return others[0] if function == "first" else others[-1]

    def by_value(a: int, b: int) -> int:
        return compare(cells[a], cells[b])

    return (min if function == "min" else max)(others, key=cmp_to_key(by_value))


def _number(aggregate: Aggregate, cells: list[Any]) -> Any:
    """Return a count, sum, mean or standard deviation."""
    count = len(cells)
    if aggregate.function == "count":
        return count
    if not count:
        return None
    if aggregate.function == "std" and count == 1:
        return None
    if endless := [cell for cell in cells if isinstance(cell, float) and not math.isfinite(cell)]:
        return math.nan if aggregate.function == "std" else sum(endless)
    exact = [Fraction(cell) for cell in cells]
    total = sum(exact, Fraction(0))
    if aggregate.function == "mean":
        return _float(total / count)
    if aggregate.function == "std":
        squares = [(cell - total / count) ** 2 for cell in exact]
        return _root(sum(squares, Fraction(0)) / (count - 1))
    if pat.is_floating(aggregate.type):
        return _float(total)
    if pat.is_decimal(aggregate.type):
        with localcontext(prec=100):
            return Decimal(total.numerator) / Decimal(total.denominator)
    return int(total)


def _array(results: list[Any], data_type: pa.DataType) -> pa.Array:
    """Return numbers of a type as an array."""
    if not pat.is_decimal(data_type):
        return pa.array(results, data_type)
    # Of a negative scale, Arrow takes not all that it holds.
    make = pa.decimal256 if pat.is_decimal256(data_type) else pa.decimal128
    with localcontext(prec=100):
        steps = [None if each is None else Decimal(int(each.scaleb(data_type.scale))) for each in results]
    whole = pa.array(steps, make(data_type.precision, 0))
    return pa.Array.from_buffers(data_type, len(whole), whole.buffers())


def _root(value: Fraction) -> float:
    """Return the square root of a number that may be beyond all floats itself."""
    with localcontext(prec=50):
        return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
