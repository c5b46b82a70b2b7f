"""Histories in this process: validity intervals of versions, and histories split at every change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import plain_column, value_text
from juncture.columnar.conversion import converted
from juncture.columnar.key_table import KeyCodes
from juncture.columnar.tie_order import order_keys
from juncture.columnar.types import is_null_type, key_kind
from juncture.errors import DataError, SchemaError
from juncture.inputs.tables import InputTable
from juncture.kernels.array_types import Ints, Mask
from juncture.local.many.spines import selected
from juncture.spec.schema import OutputColumn

Column = TypeVar("Column", pa.Array, pa.ChunkedArray)
Ties = Literal["first", "last", "error"]
HistoryHow = Literal["inner", "left", "full"]


@dataclass(frozen=True, kw_only=True)
class Versions:
    """The columns of a table of versions."""

    key: tuple[str, ...]
    on: str
    deleted: str | None
    is_snapshots: bool
    ties: Ties
    interval: tuple[str, str]


def history(versions: Versions, rows: InputTable) -> Any:
    """Return the intervals in which the versions of each key are valid, as a table of the library of `rows`."""
    table = rows.table
    assert table is not None
    codes = _codes([table], versions.key)[0]
    times = _present(table, versions.on)
    all_ranks = _ranks(times)
    order = np.lexsort((all_ranks, _first_rows(codes)[codes]))
    order = _without_ties(versions, table, order, codes, all_ranks)
    codes, ranks = codes[order], all_ranks[order]
    ended = np.zeros(len(order), np.bool_)
    if versions.deleted is not None:
        ended = plain_column(table.column(versions.deleted)).fill_null(False).to_numpy(zero_copy_only=False)[order]
    names = [name for name in rows.schema.names if name not in (versions.on, versions.deleted)]
    same_key = codes[1:] == codes[:-1]
    ends = np.full(len(order), -1)
    ends[:-1][same_key] = ranks[1:][same_key]
    if versions.is_snapshots:
        # A snapshot ends all rows of the one before.
        ends = np.where(ranks < ranks.max(initial=0), ranks + 1, -1)
    changed = _changed(table.select([name for name in names if name not in versions.key]), order)
    changed |= ~same_key | (ended[1:] != ended[:-1]) | (ends[:-1] != ranks[1:])
    starts = np.flatnonzero(np.append(True, changed)[: len(order)])
    lasts = np.append(starts[1:], len(order))[: len(starts)] - 1
    valid = ~ended[starts]
    starts, lasts = starts[valid], lasts[valid]
    added = pa.table(
        [_taken(times, order[starts]), _taken(_values_by_rank(times, all_ranks), ends[lasts])],
        names=list(versions.interval),
    )
    output = [OutputColumn(name, "left", name) for name in names]
    output += [OutputColumn(name, "right", name) for name in versions.interval]
    return _restored(rows, order[starts], added, output)


def align(
    histories: Sequence[InputTable],
    outputs: Sequence[Sequence[tuple[str, str]]],
    *,
    key: tuple[str, ...],
    interval: tuple[str, str],
    how: HistoryHow,
) -> Any:
    """Return histories joined by key and split at every change, as a table of the first one's library.

    `outputs` has the value columns of each history after the first, with their names in the result.
    """
    tables: list[Any] = [each.table for each in histories]
    codes = _codes(tables, key)
    starts = _as_first([_present(table, interval[0]) for table in tables], interval[0])
    ends = [
        _cast(plain_column(table.column(interval[1])), starts[0].type, interval[1], at)
        for at, table in enumerate(tables)
    ]
    times = pa.concat_arrays([*starts, *ends])
    ranks = _ranks(times)
    values = _values_by_rank(times, ranks)
    # Numbers that order keys and times: a key has `width` times, and the last of them is never.
    width = len(values) + 1
    parts = np.split(ranks, np.cumsum([len(each) for each in (*starts, *ends)])[:-1])
    spans = []
    for at, (table, rows_codes) in enumerate(zip(tables, codes, strict=True)):
        never = ends[at].is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        begin = rows_codes * np.int64(width) + parts[at]
        end = rows_codes * np.int64(width) + np.where(never, width - 1, parts[len(tables) + at])
        spans.append(_span(table, at, begin, end, key, interval))
    points = np.unique(np.concatenate([side for _, *sides in spans for side in sides]))
    points = points[points % width < width - 1]
    first = _first_rows(np.concatenate(codes))
    points = points[np.argsort(first[points // width], kind="stable")]
    matches = [_covering(span, points) for span in spans]
    present = np.array([rows >= 0 for rows in matches]).reshape(len(matches), len(points))
    keep: Mask = {"inner": present.all(axis=0), "left": present[0], "full": present.any(axis=0)}[how]
    following = np.append(points[1:], -1)[: len(points)]
    until = np.where(following // width == points // width, following % width, -1)[keep]
    matches = [rows[keep] for rows in matches]
    columns = {
        interval[0]: _taken(values, points[keep] % width),
        interval[1]: _taken(values, until),
    }
    if how == "full":
        offsets = np.cumsum([0, *(table.num_rows for table in tables)])
        owners = np.full(len(until), -1, np.int64)
        for rows, offset in zip(matches, offsets, strict=False):
            owners = np.where((owners < 0) & (rows >= 0), rows + offset, owners)
        for name in key:
            values = pa.concat_arrays(_as_first([plain_column(table.column(name)) for table in tables], name))
            columns[name] = converted(_taken(values, owners), histories[0].schema.field(name).type)
    output = [
        OutputColumn(name, "right", name)
        if name in interval
        else OutputColumn(name, "left", name, filled_from=name if name in columns else None)
        for name in histories[0].schema.names
    ]
    for table, rows, names in zip(tables[1:], matches[1:], outputs, strict=True):
        columns |= {name: _taken(table.column(source), rows) for source, name in names}
        output += [OutputColumn(name, "right", name) for _, name in names]
    return _restored(histories[0], matches[0], pa.table(columns), output)


_Span = tuple[Ints, Ints, Ints]
"""The rows of a history in order, and the numbers of their starts and ends."""


def _span(table: pa.Table, at: int, begin: Ints, end: Ints, key: tuple[str, ...], interval: tuple[str, str]) -> _Span:
    """Return the rows of a history that are valid at some time. Raises DataError if two of a key are at once."""
    reversed_rows = np.flatnonzero(end < begin)
    if len(reversed_rows):
        raise DataError(
            f"A row of history {at + 1} starts after its end: {_row_text(table, (*key, *interval), reversed_rows[0])}. "
            f"Expected {interval[0]} <= {interval[1]}. Correct or remove the row.",
            name="JN-HISTORY-INTERVAL",
        )
    rows = np.flatnonzero(begin < end)
    rows = rows[np.argsort(begin[rows], kind="stable")]
    overlaps = np.flatnonzero(end[rows[:-1]] > begin[rows[1:]])
    if len(overlaps):
        texts = [_row_text(table, (*key, *interval), rows[overlaps[0] + each]) for each in (0, 1)]
        raise DataError(
            f"Two rows of history {at + 1} are valid at the same time: {texts[0]}, and {texts[1]}. Expected one row at "
            "most per key and time. Correct the intervals, or make them of versions with juncture.history.",
            name="JN-HISTORY-INTERVAL",
        )
    return rows, begin[rows], end[rows]


def _covering(span: _Span, points: Ints) -> Ints:
    """Return for each key and time the row of a history that is valid; -1 without one."""
    rows, begin, end = span
    if len(rows) == 0:
        return np.full(len(points), -1, np.int64)
    at = np.searchsorted(begin, points, side="right") - 1
    return np.where((at >= 0) & (end[at] > points), rows[at], -1)


def _codes(tables: Sequence[Any], key: tuple[str, ...]) -> list[Ints]:
    """Return the codes of the keys of each table. Raises DataError for nulls."""
    codes = [np.zeros(table.num_rows, np.int32) for table in tables]
    columns = [_as_first([_present(table, name) for table in tables], name) for name in key]
    types = [column[0].type for column in columns]
    key_codes = KeyCodes(types, types)
    for at, row_codes in enumerate(codes):
        key_codes.add([column[at] for column in columns], row_codes)
    return [row_codes.astype(np.int64) for row_codes in codes]


def _present(table: pa.Table, name: str) -> pa.Array:
    """Return a column without null and NaN. Raises DataError if it has some."""
    values = plain_column(table.column(name))
    missing = np.flatnonzero(values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
    if len(missing):
        raise DataError(
            f"Row {missing[0]:,} has {value_text(values, missing[0])} in {name!r} ({values.type}). Expected a value in "
            "keys and start times. Remove these rows.",
            name="JN-HISTORY-NULL",
        )
    return values


def _as_first(columns: Sequence[pa.Array], name: str) -> list[pa.Array]:
    """Return the columns of all histories with the type of the first."""
    return [_cast(column, columns[0].type, name, at) for at, column in enumerate(columns)]


def _cast(column: pa.Array, data_type: pa.DataType, name: str, at: int) -> pa.Array:
    if column.type == data_type:
        return column
    if is_null_type(column.type):
        return pa.nulls(len(column), data_type)
    if key_kind(column.type) == key_kind(data_type):
        with suppress(pa.ArrowException):
            result = column.cast(data_type)
            # Arrow rounds floats without an error.
            if result.cast(column.type).equals(column):
                return result
    raise SchemaError(
        f"{name!r} of history {at + 1} is of type {column.type}, and some values have no equal of type {data_type}. "
        "Cast the columns of the histories to one type.",
        name="JN-TYPE-MISMATCH",
    )


def _ranks(column: pa.Array) -> Ints:
    """Return dense numbers from 0 that order the values of a column."""
    keys = order_keys([pa.chunked_array([column])])
    if not keys:
        return np.zeros(len(column), np.int64)
    order = np.lexsort(keys[::-1])
    changed = np.logical_or.reduce([each[order][1:] != each[order][:-1] for each in keys])
    ranks = np.zeros(len(column), np.int64)
    ranks[order[1:]] = np.cumsum(changed)
    return ranks


def _values_by_rank(column: pa.Array, ranks: Ints) -> pa.Array:
    return column.take(pa.array(np.unique(ranks, return_index=True)[1]))


def _first_rows(codes: Ints) -> Ints:
    """Return the first row of each code."""
    first = np.zeros(codes.max(initial=-1) + 1, np.int64)
    used, rows = np.unique(codes, return_index=True)
    first[used] = rows
    return first


def _without_ties(versions: Versions, table: pa.Table, order: Ints, codes: Ints, ranks: Ints) -> Ints:
    """Return the rows with one version of a key at each time."""
    same = (codes[order][1:] == codes[order][:-1]) & (ranks[order][1:] == ranks[order][:-1])
    if versions.ties == "error" and same.any():
        row = order[np.flatnonzero(same)[0]]
        raise DataError(
            f"Several versions start at the same time: {_row_text(table, (*versions.key, versions.on), row)}. Expected "
            'one version per key and time. Remove duplicates, or keep one by the order of rows with ties="first" or '
            '"last".',
            name="JN-HISTORY-TIES",
        )
    rows: Ints = order[~(np.append(False, same) if versions.ties == "first" else np.append(same, False))[: len(order)]]
    return rows


def _changed(table: pa.Table, order: Ints) -> Mask:
    """Return for each row but the first whether its values differ from those of the row before."""
    try:
        keys = order_keys(table.columns)
    except TypeError as error:
        raise SchemaError(
            f"Versions are compared by all columns, but unions have no order. {error} Remove or cast them.",
            name="JN-TYPE-UNSUPPORTED",
        ) from error
    changed = np.zeros(max(len(order) - 1, 0), np.bool_)
    for each in keys:
        changed |= each[order][1:] != each[order][:-1]
    return changed


def _row_text(table: pa.Table, names: Sequence[str], row: int) -> str:
    return ", ".join(f"{name} = {value_text(plain_column(table.column(name).slice(row, 1)))}" for name in names)


def _taken(column: Column, rows: Ints) -> Column:
    """Return rows of a column; null for -1."""
    return column.take(pa.array(rows, mask=rows < 0))


def _restored(table_input: InputTable, rows: Ints, added: pa.Table, output: Sequence[OutputColumn]) -> Any:
    """Return rows of an input and added columns as a table of the input's library."""
    assert table_input.table is not None
    if table_input.frame is not None:
        return table_input.restore(selected(table_input, rows, added, output))
    columns, fields = [], []
    for each in output:
        if each.side == "left" and each.filled_from is None:
            columns.append(_taken(table_input.table.column(each.name), rows))
            fields.append(table_input.schema.field(each.name))
        else:
            columns.append(added.column(each.name))
            fields.append(pa.field(each.name, columns[-1].type))
    return table_input.restore(pa.Table.from_arrays(columns, schema=pa.schema(fields)))
