"""Equality joins that hold a side, or what of it can match, in memory, and find its rows by hash tables or by sorting.

The right side is held, or a left side that is the smaller one by far, while the right one streams past it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.key_encoding import Integers, form_of
from juncture.columnar.key_table import KeyCodes
from juncture.columnar.types import is_fixed
from juncture.kernels import hash as kernels
from juncture.kernels.array_types import Codes, Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.equi.hash_index import (
    HashIndex,
    KeySpans,
    read_clustered,
    read_left_keys,
    read_right,
    spans_by_code,
)
from juncture.local.keys import Keys, PartitionedKeys, dense_keys_of
from juncture.local.output.numbered import NumberedJoin, blocks_of, join_blockwise
from juncture.local.output.pairs import MatchSpans, Prober
from juncture.local.output.payload import Holder, Payload, read_all, read_payload
from juncture.local.output.show import checking, columns_read, show
from juncture.planner.memory import HELD_ROW_BYTES
from juncture.runtime.context import JoinContext
from juncture.runtime.progress import Progress
from juncture.runtime.sort import order_of
from juncture.runtime.sources import Source
from juncture.runtime.take import nulls, worth_coding
from juncture.spec.equi import ResolvedEqui
from juncture.spec.schema import How, OutputColumn, Side

Search = Callable[[ResolvedEqui, Source, Source, JoinContext], tuple[Prober, Payload]]
"""Reads the right side, or what of it can match, and returns what finds its rows: `hashed` or `merged`."""

_PARTITIONS_PER_THREAD = 4

_TURNED: dict[How, How] = {"inner": "inner", "left": "right", "right": "left", "full": "full"}
_OTHER: dict[Side, Side] = {"left": "right", "right": "left"}


def stream_held(
    join: ResolvedEqui, left: Source, right: Source, search: Search, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join, batch by batch, in the order of the left rows, whose keys are looked up by `search`."""
    prober, payload = search(join, left, right, context)
    context.threads.release_unused()
    yield from show(join, left, prober, payload, context)


def held_bytes(source: Source) -> int:
    """Return about how much memory a join takes that holds the rows of a source."""
    return source.bytes_of(source.schema.names) + HELD_ROW_BYTES * source.num_rows


def stream_blockwise(
    numbered: NumberedJoin[ResolvedEqui], left: Source, right: Source, block_bytes: int, context: JoinContext
) -> Iterator[pa.RecordBatch]:
    """Yield the numbered rows of a join, those of each block of right rows in the order of their numbers.

    Neither side fits in memory, nor can be split by its keys. The left rows are read once for each block of right rows,
    which has `block_bytes`.
    """

    def run(join: ResolvedEqui, left: Source, block: Source) -> Iterator[pa.RecordBatch]:
        return stream_held(join, left, block, hashed, context)

    rows_most = max(1, int(block_bytes * right.num_rows / max(held_bytes(right), 1)))
    return join_blockwise(numbered, left, ((left, block) for block in blocks_of(right, rows_most)), run)


def looks_for_keys_only(join: ResolvedEqui) -> bool:
    """Return whether it is enough to know which keys the right side has."""
    return join.how in ("semi", "anti") and join.predicate is None


def hashed(
    join: ResolvedEqui, left: Source, right: Source, context: JoinContext, *, partitioned: bool = False
) -> tuple[Prober, Payload]:
    """Hold the right rows by a table of the keys of the smaller side, or one for each partition of its keys."""
    by_keys = _by_left_keys if left.num_rows < right.num_rows else _by_right_keys
    return by_keys(join, left, right, partitioned, context)


def _by_right_keys(
    join: ResolvedEqui, left: Source, right: Source, partitioned: bool, context: JoinContext
) -> tuple[Prober, Payload]:
    """Make a table of the right keys, and hold all right rows."""
    left_types, right_types = join.key_types
    dense = dense_keys_of(right, join.right_by, (right_types, left_types), nulls_equal=join.nulls_equal)
    keys = dense or _hash_table(join, right_types, left_types, partitioned, context)
    holder = Holder(right, _held_columns(join))
    groups = read_right(right, join.right_by, keys, context, holder=holder)
    payload = holder.finish()
    return _prober(join, left, groups, spans_by_code(groups, keys), payload), payload


def _by_left_keys(
    join: ResolvedEqui, left: Source, right: Source, partitioned: bool, context: JoinContext
) -> tuple[Prober, Payload]:
    """Make a table of the left keys, and hold the right rows that have one of them.

    A hash table codes keys in the order of the left rows, in which right rows are then held as they are shown.
    """
    keys = _hash_table(join, *join.key_types, partitioned, context)
    sides, columns = ((left, join.left_by), (right, join.right_by)), _held_columns(join)
    all_rows, presence = join.how in ("right", "full"), looks_for_keys_only(join)
    is_clustered = not all_rows and not presence and "right" not in join.numbered
    if is_clustered and all(is_fixed(right.schema.field(name).type) for name in columns):
        groups, payload = read_clustered(*sides, columns, keys, context)
    else:
        groups, right_rows = read_left_keys(*sides, keys, context, all_rows=all_rows, presence=presence)
        payload = read_payload(right_rows, columns, context)
    return _prober(join, left, groups, spans_by_code(groups, keys), payload), payload


def merged(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> tuple[Prober, Payload]:
    """Sort the right rows, and hold them."""
    left_types, right_types = join.key_types
    codes = _SortCodes(right_types, left_types, nulls_equal=join.nulls_equal)
    holder = Holder(right, _held_columns(join))
    groups, values = _read_sorted(right, join.right_by, codes, context, holder=holder)
    payload = holder.finish()
    return _prober(join, left, groups, _spans_by_order(values, codes, context.alone()), payload), payload


def _hash_table(
    join: ResolvedEqui, first: list[pa.DataType], second: list[pa.DataType], partitioned: bool, context: JoinContext
) -> Keys:
    """Return an empty table for keys of the first types, to look up those of the second."""
    if not partitioned:
        return KeyCodes(first, second, nulls_equal=join.nulls_equal)
    partitions = _PARTITIONS_PER_THREAD * context.threads.count
    return PartitionedKeys(first, second, nulls_equal=join.nulls_equal, partitions=partitions)


def _prober(join: ResolvedEqui, left: Source, groups: HashIndex, spans: KeySpans, payload: Payload) -> Prober:
    """Return what finds right rows of an equal key; `spans` writes where those of each left key start and end."""
    check = None if join.predicate is None else checking(join.predicate, payload, groups.rows_at)

    def find(batch: pa.RecordBatch) -> MatchSpans:
        first, end = np.zeros(batch.num_rows, np.int32), np.zeros(batch.num_rows, np.int32)
        spans([batch.column(name) for name in join.left_by], first, end)
        if check is None:
            return MatchSpans(first, end, one_at_most=groups.has_each_key_once)
        return MatchSpans(first, end, check=check(batch))

    return Prober(groups, find, join.compared("left"), worth_coding(left, join.left_by))


def _held_columns(join: ResolvedEqui) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*join.right_payload, *columns_read(join.predicate, "right"))))


class _SortCodes:
    """Integers to sort keys by, the same for equal keys only: a whole number itself, or a code of the right keys."""

    def __init__(self, right: Sequence[pa.DataType], left: Sequence[pa.DataType], *, nulls_equal: bool) -> None:
        self._form = form_of(right[0], left[0])
        is_integer = isinstance(self._form.of(nulls(0, right[0])), Integers)
        self._keys = (
            None
            if is_integer and len(right) == 1 and not nulls_equal
            else KeyCodes(right, left, nulls_equal=nulls_equal)
        )

    def of(self, columns: list[pa.Array], *, new: bool) -> tuple[Ints, Mask | None]:
        """Return the codes of some rows, of the right side if new, and which rows can match; None for all."""
        if self._keys is None:
            form = self._form.of(columns[0])
            assert isinstance(form, Integers)
            return form.values, form.valid
        codes = np.empty(len(columns[0]), np.int32)
        (self._keys.add if new else self._keys.find)(columns, codes)
        return codes.astype(np.int64), codes != EMPTY


def _spans_by_order(values: Ints, codes: _SortCodes, context: JoinContext) -> KeySpans:
    """Return what sorts left keys, in one thread, and merges them with the ascending codes of right rows."""

    def spans(columns: list[pa.Array], first: Codes, end: Codes) -> None:
        key_codes, usable = codes.of(columns, new=False)
        rows = _order(key_codes, usable, context)
        kernels.merge_spans(key_codes[rows], rows, values, first, end)

    return spans


def _read_sorted(
    source: Source, names: Sequence[str], codes: _SortCodes, context: JoinContext, *, holder: Holder
) -> tuple[HashIndex, Ints]:
    """Read the right side, and sort it by its codes, which are also returned. Arguments as for `read_right`."""
    values = np.empty(source.num_rows, np.int64)
    usable = np.ones(source.num_rows, np.bool_)

    def code(batch: pa.RecordBatch, rows: slice) -> None:
        values[rows], here = codes.of([batch.column(name) for name in names], new=True)
        if here is not None:
            usable[rows] = here

    read_all(source, names, code, context, coded=worth_coding(source, names), phase="right", holder=holder)
    rows = _order(values, usable, context)
    return HashIndex(np.zeros(1, np.int64), rows, source.num_rows), values[rows]


def _order(values: Ints, usable: Mask | None, context: JoinContext) -> Codes:
    """Return the rows that can match in the order of their values, stably."""
    if usable is None or bool(usable.all()):
        return order_of([values], context)
    row_numbers = np.flatnonzero(usable).astype(np.int32)
    return row_numbers[order_of([values[row_numbers]], context)]


def can_swap(join: ResolvedEqui) -> bool:
    """Return whether the sides of a join can be swapped: predicates name the sides, and semi-joins need it not."""
    return join.how in _TURNED and join.predicate is None


def stream_unordered(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join that `can_swap`, in the order of the right ones. The left rows are buffered."""
    return stream_swapped(_with_streaming_keys(join), left, right, context)


def stream_swapped(join: ResolvedEqui, left: Source, right: Source, context: JoinContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a join that `can_swap`, those of a left row in right order, with others between them.

    The left rows are buffered. Columns of either side may be filled from the other one.
    """

    def report(phase: str, done: int, total: int) -> None:
        context.progress.of("right" if phase == "left" else "left")(done, total)

    other = replace(
        join,
        how=_TURNED[join.how],
        left_schema=join.right_schema,
        right_schema=join.left_schema,
        left_computed=join.right_computed,
        right_computed=join.left_computed,
        left_by=join.right_by,
        right_by=join.left_by,
        output=tuple(replace(column, side=_OTHER[column.side]) for column in join.output),
        numbered=tuple(_OTHER[side] for side in join.numbered),
    )
    return stream_held(other, right, left, hashed, replace(context, progress=Progress(report)))


def _with_streaming_keys(join: ResolvedEqui) -> ResolvedEqui:
    """Return a join that shows right keys, which go by in order, in place of left keys that look the same."""
    pairs = dict(zip(join.left_by, join.right_by, strict=True))

    def turned(column: OutputColumn) -> OutputColumn:
        if column.side == "right" or column.source not in pairs or not _looks_the_same(join, column.source, pairs):
            return column
        if join.how in ("right", "full") and column.filled_from is None:
            # A row without a left match shows a null.
            return column
        filled_from = column.source if join.how in ("left", "full") else None
        return OutputColumn(column.name, "right", pairs[column.source], filled_from)

    return replace(join, output=tuple(map(turned, join.output)))


def _looks_the_same(join: ResolvedEqui, name: str, pairs: dict[str, str]) -> bool:
    """Return whether equal values of a pair of keys are the same values, which -0.0 and 0.0, say, are not."""
    data_type = join.left_schema.field(name).type
    return bool(data_type == join.right_schema.field(pairs[name]).type) and (
        pat.is_integer(data_type)
        or pat.is_boolean(data_type)
        or pat.is_date(data_type)
        or pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
    )
