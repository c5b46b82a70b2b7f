"""The definition of every join, by brute force: slow, short and obviously right.

Every algorithm on every engine has to give these rows. Nothing here is shared with the engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.errors import DataError
from juncture.spec.asof import ResolvedAsof
from juncture.spec.schema import TIME_UNITS, Domain, OutputColumn, plain_type

__all__ = ["asof"]


def asof(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> pa.Table:
    """Return an as-of join's rows by comparing every left row with every right row.

    Parameters
    ----------
    join
        The spec, resolved against the two schemas.
    left, right
        The tables.

    Returns
    -------
    pyarrow.Table
        Left rows in their order, best match first; then, for ``right`` and ``full``, the right rows that were not
        taken, in their order.

    Raises
    ------
    DataError
        If ``ties="error"`` and a tie has to be decided.

    Notes
    -----
    Takes time in proportion to the product of the two row counts: for tests, not for use.
    """
    pairs: list[tuple[int | None, int | None]] = []
    taken: set[int] = set()
    how = join.spec.how
    for row, matches in enumerate(_matches(join, left, right)):
        taken.update(matches)
        if how == "semi":
            pairs += [(row, None)] if matches else []
        elif how == "anti" or not matches:
            pairs += [(row, None)] if not matches and how in ("anti", "left", "full") else []
        else:
            pairs += [(row, match) for match in matches]
    if how in ("right", "full"):
        pairs += [(None, row) for row in range(right.num_rows) if row not in taken]
    return _assemble(join.output, join.output_schema, left, right, pairs)


def _matches(join: ResolvedAsof, left: pa.Table, right: pa.Table) -> Iterator[list[int]]:
    """Yield, for each left row, the right rows that it matches, best first."""
    spec = join.spec
    left_on = _on_values(left[join.left_on], join.domain)
    right_on = _on_values(right[join.right_on], join.domain)
    left_keys = _keys(left, join.left_by)
    right_keys = _keys(right, join.right_by)
    tie_values = list(zip(*(_values(right[name]) for name in join.tie_columns), strict=True))
    compare = _tie_order(tie_values or [()] * right.num_rows)

    def closeness(on: Any, other_on: Any, distance: Any) -> tuple[Any, ...]:
        # Distances between floats are rounded, so only the two sides are told apart by them; within a side the
        # values themselves decide.
        side = (other_on > on, other_on if other_on > on else -other_on)
        return (distance, *side) if spec.direction == "nearest" else side

    def rank(a: tuple[tuple[Any, ...], Any, int], b: tuple[tuple[Any, ...], Any, int]) -> int:
        return _sign(a[0], b[0]) or compare(b[2], a[2])

    for row, (on, key, limit) in enumerate(zip(left_on, left_keys, _limits(join, left), strict=True)):
        if on is None or key is None or limit is None:
            yield []
            continue
        near: list[tuple[tuple[Any, ...], Any, int]] = []
        for other, (other_on, other_key) in enumerate(zip(right_on, right_keys, strict=True)):
            if other_on is None or other_key != key:
                continue
            if (spec.direction == "backward" and other_on > on) or (spec.direction == "forward" and other_on < on):
                continue
            if other_on == on and not spec.allow_exact_matches:
                continue
            distance = 0 if other_on == on else abs(on - other_on)
            if distance <= limit:
                near.append((closeness(on, other_on, distance), other_on, other))
        near.sort(key=cmp_to_key(rank))
        best, rest = near[: spec.matches], near[spec.matches :]
        if spec.ties == "error" and rest and rest[0][1] == best[-1][1]:
            raise DataError(f"Right rows tie for left row {row}, and ties='error'.")
        yield [other for _, _, other in best]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as Python's, but dates as days and times as nanoseconds.

    Python's own round nanoseconds, and end in 9999.
    """
    column = _plain(column)
    return [_exact(value, column.type) for value in column.cast(_timeless(column.type)).to_pylist()]


def _exact(value: Any, data_type: pa.DataType) -> Any:
    """Turn the integers that `_timeless` made of times into days and nanoseconds."""
    if value is None:
        return None
    if pat.is_struct(data_type):
        return {field.name: _exact(value[field.name], field.type) for field in data_type}
    if pat.is_map(data_type):
        return [(_exact(key, data_type.key_type), _exact(item, data_type.item_type)) for key, item in value]
    if isinstance(value, list):
        return [_exact(item, data_type.value_type) for item in value]
    if pat.is_date64(data_type):
        return value // 86_400_000
    if pat.is_timestamp(data_type) or pat.is_duration(data_type) or pat.is_time(data_type):
        return value * 1_000 ** (3 - TIME_UNITS.index(data_type.unit))
    return value


def _timeless(data_type: pa.DataType) -> pa.DataType:
    """Return the type with integers in place of times."""
    if pat.is_struct(data_type):
        return pa.struct([field.with_type(_timeless(field.type)) for field in data_type])
    if pat.is_map(data_type):
        return pa.map_(_timeless(data_type.key_type), _timeless(data_type.item_type))
    if pat.is_list(data_type):
        return pa.list_(_timeless(data_type.value_type))
    if pat.is_large_list(data_type):
        return pa.large_list(_timeless(data_type.value_type))
    if pat.is_fixed_size_list(data_type):
        return pa.list_(_timeless(data_type.value_type), data_type.list_size)
    if pat.is_temporal(data_type) and not pat.is_interval(data_type):
        return pa.int32() if data_type.bit_width == 32 else pa.int64()
    return data_type


def _on_values(column: pa.ChunkedArray, domain: Domain) -> list[Any]:
    """Return the values in steps of the domain; None where they never match."""
    values = _values(column)
    if domain.kind == "float":
        return [None if v is None or math.isnan(v) else v for v in values]
    if domain.kind == "decimal":
        with localcontext(prec=100):
            return [None if v is None else int(v.scaleb(domain.scale)) for v in values]
    if domain.kind == "timestamp":
        return [None if v is None else v // domain.step_ns for v in values]
    return values


def _limits(join: ResolvedAsof, left: pa.Table) -> list[Any]:
    """Return the greatest distance for each left row; None where nothing matches."""
    tolerance = join.tolerance
    if tolerance is None or tolerance.column is None:
        constant = math.inf if tolerance is None else tolerance.constant
        return [constant] * left.num_rows
    values = _values(left[tolerance.column])
    if join.domain.is_time:
        values = [None if v is None else v // join.domain.step_ns for v in values]
    elif join.domain.kind == "decimal":
        with localcontext(prec=100):
            scaled = [None if v is None else Decimal(v).scaleb(join.domain.scale) for v in values]
            values = [None if v is None else math.floor(v) for v in scaled]
    return [None if v is None or not v >= 0 else v for v in values]


def _keys(table: pa.Table, names: tuple[str, ...]) -> list[tuple[Any, ...] | None]:
    """Return the ``by`` values of each row; None where one of them is null."""
    columns = [[_comparable(value) for value in _values(table[name])] for name in names]
    rows = zip(*columns, strict=True) if columns else ((),) * table.num_rows
    return [None if None in row else row for row in rows]


def _comparable(value: Any) -> Any:
    """Make NaN equal to itself, within nested values too."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    if isinstance(value, dict):
        return tuple(map(_comparable, value.values()))
    return value


def _tie_order(rows: list[tuple[Any, ...]]) -> Callable[[int, int], int]:
    """Return a comparison of right rows by their tie columns: nulls lowest, NaN highest."""

    def compare(a: Any, b: Any) -> int:
        if a is None or b is None:
            return (a is not None) - (b is not None)
        if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
            return math.isnan(a) - math.isnan(b)
        if isinstance(a, dict):
            return compare(list(a.values()), list(b.values()))
        if isinstance(a, list | tuple):
            a, b = _entries(a), _entries(b)
            for one, other in zip(a, b, strict=False):
                if sign := compare(one, other):
                    return sign
            return _sign(len(a), len(b))
        return _sign(a, b)

    return lambda a, b: compare(rows[a], rows[b]) or _sign(a, b)


def _entries(values: Any) -> Any:
    """Return a map's entries by key: Arrow gives maps, and only maps, as lists of tuples."""
    if isinstance(values, list) and values and type(values[0]) is tuple:
        return sorted(values, key=lambda entry: entry[0])
    return values


def _sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _assemble(
    output: tuple[OutputColumn, ...],
    schema: pa.Schema,
    left: pa.Table,
    right: pa.Table,
    pairs: list[tuple[int | None, int | None]],
) -> pa.Table:
    left_rows = pa.array([pair[0] for pair in pairs], pa.int64())
    right_rows = pa.array([pair[1] for pair in pairs], pa.int64())
    either_rows = pa.array([ours if ours is not None else left.num_rows + theirs for ours, theirs in pairs], pa.int64())
    arrays = []
    for column, field in zip(output, schema, strict=True):
        table, rows = (left, left_rows) if column.side == "left" else (right, right_rows)
        values = _plain(table[column.source])
        if column.filled_from is not None:
            values = pa.chunked_array([*values.chunks, *_plain(right[column.filled_from]).chunks], values.type)
            rows = either_rows
        arrays.append(_encoded(values.take(rows), field.type))
    return pa.table(arrays, schema=schema)


def _encoded(values: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Undo `_plain`."""
    if pat.is_run_end_encoded(data_type):
        return pc.run_end_encode(values.combine_chunks(), run_end_type=data_type.run_end_type)
    return (values.dictionary_encode() if pat.is_dictionary(data_type) else values).cast(data_type)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values without an encoding."""
    if pat.is_run_end_encoded(column.type):
        column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type)
    data_type = plain_type(column.type)
    # Arrow cannot take rows of a view.
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(views.get(data_type, data_type))
