"""Why left rows have no match: the first reason that applies to each, and rows as texts show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import value_text
from juncture.columnar.types import plain_type
from juncture.kernels.array_types import Codes, Floats, Ints, Mask
from juncture.kernels.hash_table import EMPTY
from juncture.local.keys import Keys, left_keys_of
from juncture.local.output.numbered import number_column
from juncture.local.output.payload import read_all
from juncture.planner.explain.meaning import ordering_columns
from juncture.planner.report import REASONS
from juncture.runtime.context import JoinContext
from juncture.runtime.sources import Source
from juncture.runtime.take import select
from juncture.spec.expression import Key
from juncture.spec.resolved import Resolved

Reasons = npt.NDArray[np.int8]
"""The place of each left row's reason in `REASONS`; -1 for rows with a match."""

_NULL_ON, _NULL_KEY, _UNKNOWN_KEY, _NO_CANDIDATE, _BEYOND_TOLERANCE = range(len(REASONS))


@dataclass(frozen=True)
class RowReport:
    """What becomes of each left row."""

    right_rows: Ints  # the best match of an as-of join, or the first of another; -1 without one
    reasons: Reasons  # why there is no match
    distances: Floats  # the distance of the best right row, even if it is beyond the tolerance; NaN if unknown

    def table(self) -> pa.Table:
        """Return a row for each left row, in order."""
        return pa.table(
            {
                "left_row": pa.array(np.arange(len(self.reasons))),
                "right_row": number_column(self.right_rows),
                "reason": _named(self.reasons),
                "distance": pa.array(self.distances, from_pandas=True),
            }
        )


@dataclass(frozen=True)
class CodedKeys:
    """The keys of the left rows in codes."""

    keys: Keys  # what assigns the codes, also to right rows
    codes: Codes  # the code of each row; `EMPTY` where a key is null

    @classmethod
    def of(cls, join: Resolved, left: Source, context: JoinContext) -> CodedKeys:
        """Return the keys of a join's left side, in working types."""
        keys = left_keys_of(join, left)
        codes = np.zeros(left.num_rows, np.int32)
        names = list(dict.fromkeys(join.left_by))

        def add(batch: pa.RecordBatch, rows: slice) -> None:
            keys.add([batch.column(name) for name in join.left_by], codes[rows])

        if names:
            read_all(left, names, add, context, coded=names)
        else:
            keys.add([], codes)
        return cls(keys, codes)

    def are_known(self, join: Resolved, right: Source, context: JoinContext) -> Mask:
        """Return a mask of the left rows whose key a right row has; of an as-of join, one with an ``on``."""
        names = list(dict.fromkeys(join.right_by))
        if not names:
            return np.ones(len(self.codes), np.bool_)
        ordered = [name for name in join.position("right") if name is not None] if join.spec.ranks_matches else []
        # The last is for rows whose key is null, whose code is -1.
        has_right_row = np.zeros(max(self.keys.count, 1) + 1, np.bool_)

        def mark(batch: pa.RecordBatch, _rows: slice) -> None:
            codes = np.empty(batch.num_rows, np.int32)
            self.keys.find([batch.column(name) for name in join.right_by], codes)
            for name in ordered:
                codes[_is_missing(batch.column(name))] = EMPTY
            has_right_row[codes[codes != EMPTY]] = True

        read_all(right, [*names, *ordered], mark, context, coded=names)
        mask: Mask = has_right_row[self.codes]
        return mask


def reasons_of(
    join: Resolved,
    matched: Mask,
    keys: CodedKeys,
    left: Source,
    right: Source,
    context: JoinContext,
    *,
    is_beyond: Mask | None = None,
) -> Reasons:
    """Return why left rows in working types have no match; `is_beyond` marks those with one beyond their tolerance."""
    reasons = np.full(len(matched), _NO_CANDIDATE, np.int8)
    if is_beyond is not None:
        reasons[is_beyond] = _BEYOND_TOLERANCE
    # The first reason is written last.
    reasons[~keys.are_known(join, right, context)] = _UNKNOWN_KEY
    if not join.nulls_equal:
        reasons[_lacking(join.left_by, left, context, _is_null)] = _NULL_KEY
    reasons[_lacking(ordering_columns(join), left, context, _is_missing)] = _NULL_ON
    reasons[matched] = -1
    return reasons


def counts_of(reasons: Reasons) -> dict[str, int]:
    """Return how many left rows have each reason."""
    counts = np.bincount(reasons[reasons >= 0], minlength=len(REASONS))
    return dict(zip(REASONS, counts.tolist(), strict=True))


def _named(reasons: Reasons) -> pa.Array:
    return pa.array([*REASONS, None]).take(pa.array(np.where(reasons < 0, len(REASONS), reasons)))


def _lacking(columns: Sequence[str], left: Source, context: JoinContext, lacks: Callable[[pa.Array], Mask]) -> Mask:
    """Return a mask of the rows that lack a value in one of some columns."""
    lacking = np.zeros(left.num_rows, np.bool_)
    for column in select(left, columns, None, context):
        if column.num_chunks:
            lacking |= np.concatenate([lacks(chunk) for chunk in column.chunks])
    return lacking


def _is_missing(array: pa.Array) -> Mask:
    """Return a mask of values that are null or NaN, or tuples with such a value."""
    if pat.is_struct(array.type):
        missing: Mask = np.logical_or.reduce([_is_missing(part) for part in array.flatten()])
        return missing
    return _is_null(array, nan_is_null=pat.is_floating(plain_type(array.type)))


def _is_null(array: pa.Array, *, nan_is_null: bool = False) -> Mask:
    """Return a mask of values that are null, or NaN if that counts, too."""
    mask: Mask = pc.is_null(array, nan_is_null=nan_is_null).to_numpy(zero_copy_only=False)
    return mask


def row_text(source: Source, join: Resolved, keys: Iterable[Key], row: int, context: JoinContext) -> str:
    """Return what a left row has in columns and expressions, as in ``symbol="A", ts=5``."""
    names = {key: join.name_of("left", key) for key in keys}
    # A task may lack columns from which compared values are computed.
    columns = {str(key): name for key, name in names.items() if name is not None and name in source.schema.names}
    return cells_text(source, columns, row, context)


def cells_text(source: Source, columns: Mapping[str, str], row: int, context: JoinContext) -> str:
    """Return what a row has in some columns, by what texts call them."""
    values = select(source, list(columns.values()), np.array([row], np.int64), context)
    return ", ".join(f"{text}={value_text(value.chunk(0))}" for text, value in zip(columns, values, strict=True))
