"""Aggregates over the matches of each left row, one value at a time, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.spec.aggregate import CHOSEN, Aggregate
from juncture.spec.condition import ResolvedInequality
from juncture.testing.output import assemble, encoded, gathered
from juncture.testing.rows import cell, compare, tie_order, values


def aggregated_rows(
    join: ResolvedInequality,
    left: pa.Table,
    right: pa.Table,
    matches: Iterable[list[int]],
    order: list[Any],
    windows: Mapping[str, list[list[int]]] = MappingProxyType({}),
) -> pa.Table:
    """Return one row per left row: its columns, and the aggregates over its matches.

    ``matches`` has the right rows of each left row, and ``windows`` those in each window. ``order`` orders right rows
    before the tie columns do. Raises DataError if a sum does not fit its type.
    """
    numbered = [(row, others) for row, others in enumerate(matches) if others or join.how == "left"]
    tie_values = list(zip(*(values(right[name]) for name in join.tie_columns), strict=True))
    by_ties = tie_order(tie_values or [()] * right.num_rows)

    def by_rank(a: int, b: int) -> int:
        return compare(order[a], order[b]) or by_ties(a, b)

    def ranked(window: str | None) -> list[list[int]]:
        rows = [others if window is None else windows[window][row] for row, others in numbered]
        return [sorted(others, key=cmp_to_key(by_rank)) for others in rows]

    schema = join.user_schema(left.schema, right.schema)
    types = schema.types[len(join.output) :]
    columns = [
        _column(each, kind, right, ranked(each.window)) for each, kind in zip(join.aggregates, types, strict=True)
    ]
    return pa.table([*assemble(join, left, right, [(row, None) for row, _ in numbered]), *columns], schema=schema)


def _column(
    aggregate: Aggregate, data_type: pa.DataType, right: pa.Table, ranked: list[list[int]]
) -> pa.ChunkedArray | pa.Array:
    """Return an aggregate over each list of right rows, which are in the order of ``first`` and ``last``."""
    if aggregate.column is None:
        return pa.array([len(others) for others in ranked], aggregate.type)
    cells = values(right[aggregate.column])
    seconds = cells if aggregate.other is None else values(right[aggregate.other])
    present = [
        [other for other in others if cells[other] is not None and seconds[other] is not None] for others in ranked
    ]
    if aggregate.function in CHOSEN:
        chosen = [_chosen(aggregate.function, others, seconds) for others in present]
        return gathered([None if row is None else (right[aggregate.column], row) for row in chosen], data_type)
    if aggregate.function == "list":
        return _lists([[(right[aggregate.column], other) for other in others] for others in present], data_type)
    if aggregate.function in ("any", "all"):
        whether = any if aggregate.function == "any" else all
        return pa.array([whether(cells[other] for other in others) if others else None for others in present])
    if aggregate.function == "weighted_mean":
        pairs = [[(cells[other], seconds[other]) for other in others] for others in present]
        return pa.array([_weighted_mean(each) for each in pairs], aggregate.type)
    results = [_number(aggregate, [cells[other] for other in others]) for others in present]
    try:
        return _array(results, aggregate.type)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise DataError(
            f"A sum of {aggregate.column!r} does not fit {aggregate.type}.", name="JN-SUM-OVERFLOW"
        ) from error


def _lists(cells: list[list[tuple[pa.ChunkedArray, int]]], data_type: pa.DataType) -> pa.ChunkedArray:
    chunks = []
    for row in cells:
        values = _array_of([cell(column, row_number) for column, row_number in row], data_type.value_type)
        offsets = pa.array([0, len(row)], pa.int32())
        chunks.append(pa.ListArray.from_arrays(offsets, values, type=data_type))
    return pa.chunked_array(chunks, data_type)


def _array_of(cells: list[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Return single values as one array. Arrow does not unify dictionaries of nested values."""
    if pat.is_dictionary(data_type):
        indices = pa.array(range(len(cells)), data_type.index_type)
        items = _array_of(cells, data_type.value_type)
        return pa.DictionaryArray.from_arrays(indices, items, ordered=data_type.ordered)
    return pa.concat_arrays([pa.nulls(0, data_type), *(encoded(each, data_type) for each in cells)])


def _chosen(function: str, others: list[int], cells: list[Any]) -> int | None:
    """Return the row whose value is the result."""
    if not others:
        return None
    if function in ("first", "last"):
        return others[0] if function == "first" else others[-1]

    def by_value(a: int, b: int) -> int:
        return compare(cells[a], cells[b])

    # Both return the first of several.
    return (min if function.endswith("min") else max)(others, key=cmp_to_key(by_value))


def _number(aggregate: Aggregate, cells: list[Any]) -> Any:
    """Return a count, sum, mean, standard deviation or quantile."""
    count = len(cells)
    if aggregate.function == "count":
        return count
    if aggregate.function == "count_distinct":
        return sum(not any(compare(one, other) == 0 for other in cells[:index]) for index, one in enumerate(cells))
    if not count:
        return None
    if aggregate.function in ("median", "quantile"):
        return _quantile(cells, 0.5 if aggregate.function == "median" else float(aggregate.argument or 0))
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


def _quantile(cells: list[Any], share: float) -> float:
    """Return the interpolated value at a share of the way from the least to the greatest."""
    ordered = sorted(cells, key=cmp_to_key(compare))
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    one, other, part = ordered[below], ordered[math.ceil(position)], position - below
    if part == 0 or compare(one, other) == 0:
        return float(one)
    if any(isinstance(each, float) and not math.isfinite(each) for each in (one, other)):
        return float(one) + float(other)
    return _float(Fraction(one) + (Fraction(other) - Fraction(one)) * Fraction(part))


def _weighted_mean(pairs: list[tuple[Any, Any]]) -> float | None:
    if not pairs:
        return None
    if any(isinstance(each, float) and not math.isfinite(each) for pair in pairs for each in pair):
        products = sum(float(value) * float(weight) for value, weight in pairs)
        weights = sum(float(weight) for _, weight in pairs)
        return None if weights == 0 else products / weights
    total = sum((Fraction(weight) for _, weight in pairs), Fraction(0))
    weighted = sum((Fraction(value) * Fraction(weight) for value, weight in pairs), Fraction(0))
    return None if total == 0 else _float(weighted / total)


def _array(results: list[Any], data_type: pa.DataType) -> pa.Array:
    if not pat.is_decimal(data_type):
        return pa.array(results, data_type)
    # Arrow does not accept all values of a negative scale.
    make = pa.decimal256 if pat.is_decimal256(data_type) else pa.decimal128
    with localcontext(prec=100):
        steps = [None if each is None else Decimal(int(each.scaleb(data_type.scale))) for each in results]
    integers = pa.array(steps, make(data_type.precision, 0))
    return pa.Array.from_buffers(data_type, len(integers), integers.buffers())


def _root(value: Fraction) -> float:
    """Return the square root of a number that may exceed all floats itself."""
    with localcontext(prec=50):
        return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
