"""MIN and MAX of groups under deletes: all values are stored, in order, by group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from juncture.columnar.arrays import array_of, float_codes, floats, floats_of, joined_batches, raw_values
from juncture.incremental.state.arrangement import Arrangement, Delta, Journal
from juncture.incremental.view.operators.accumulators import Accumulator
from juncture.incremental.view.operators.arranged import identity_of
from juncture.incremental.view.operators.operator import batch_of, schema_of
from juncture.incremental.view.paging import SpillableRows
from juncture.kernels.array_types import Codes, Ints, Words
from juncture.kernels.next_row import nth_neighbours
from juncture.ordered.arithmetic import MAX_CODE, MIN_CODE

_CODED_DIGITS = 18


class GroupKeys:
    """Group numbers as keys of paging: rows on disk are in the order of groups."""

    def hashes(self, keys: Codes) -> Words:
        """Return a stable number for each group."""
        hashes: Words = keys.astype(np.uint64)
        return hashes


class ExtremeAccumulator(Accumulator):
    """The least or greatest value of type ``of``; null without values.

    Values with 64-bit order codes are found by binary search. For others, such as text, all values of a group are
    scanned.
    """

    def __init__(self, of: pa.DataType, *, greatest: bool) -> None:
        self._type = of
        self._greatest = greatest
        self._coded = _is_coded(of)
        schema = schema_of([pa.int32(), of])
        self._identity = identity_of(schema, "a MIN or MAX")
        self._arrangement = Arrangement(schema, self._identity, int(self._coded))
        self.spillable = (SpillableRows(self._arrangement, GroupKeys(), _groups_of, int(self._coded)),)
        self._groups = np.zeros(0, np.int32)
        self._before = pa.nulls(0, of)
        self._journal = Journal()

    def grow(self, groups: int) -> None:
        """Do nothing: no array has a slot per group."""

    def begin(self, groups: Codes) -> None:
        """Begin an epoch with the affected groups."""
        self._groups = groups
        self._journal = Journal()
        self._before = self._found()

    def add(self, rows: Ints, values: pa.Array | None, weights: Ints) -> None:
        """Add or remove values."""
        assert values is not None
        groups = array_of(self._groups[rows], pa.int32())
        batch = batch_of([groups, values], self._arrangement.schema)
        batch, weights, hashes = self._identity.consolidated([batch], weights)
        keys = _groups_of(batch)
        codes = np.zeros((int(self._coded), len(weights)), np.int64)
        if self._coded:
            codes[0] = _codes(batch.column(1))
        delta, places, missing = self._arrangement.locate(Delta.of(batch, weights, keys, codes, hashes))
        assert not missing.any()
        self._arrangement.change(delta, places, np.zeros((0, len(delta)), np.int64), self._journal)

    def before(self) -> pa.Array:
        """Return the values before the epoch."""
        return self._before

    def after(self) -> pa.Array:
        """Return the values after the epoch."""
        return self._found()

    def commit(self) -> None:
        """Commit the values."""
        self._journal = Journal()
        self._arrangement.compact()

    def abandon(self) -> None:
        """Restore the values before the epoch."""
        self._journal.undo()

    def _found(self) -> pa.Array:
        return self._searched() if self._coded else self._scanned()

    def _searched(self) -> pa.Array:
        start, farthest = (MAX_CODE, MIN_CODE) if self._greatest else (MIN_CODE, MAX_CODE)
        codes = np.full(len(self._groups), start)
        best = np.full(len(self._groups), farthest)
        exists = np.zeros(len(self._groups), np.bool_)
        for run in self._arrangement.memory:
            order_codes = np.ascontiguousarray(run.codes[0])
            own = np.full(len(self._groups), farthest)
            nth_neighbours(
                self._groups, codes, run.groups, run.starts, order_codes, run.weights, 1, not self._greatest, own
            )
            best = np.maximum(best, own) if self._greatest else np.minimum(best, own)
        if self._arrangement.pages is not None:
            self._arrangement.pages.neighbours(self._groups, codes, 1, best, forward=not self._greatest)
            # The extreme code also marks groups without values, so check whether the value exists.
            last = np.flatnonzero(best == farthest)
            self._arrangement.pages.fetch_between(self._groups[last], best[last], best[last])
        for run in self._arrangement.runs:
            exists |= _has(run.groups, run.starts, run.weights, self._groups)
        return _values(best, self._type, exists)

    def _scanned(self) -> pa.Array:
        order = np.argsort(self._groups)
        none = np.zeros(len(order), np.int64)
        probe = Delta(
            pa.RecordBatch.from_pylist([], self._arrangement.schema), none, self._groups[order], none[None][:0], none
        )
        batches = [run.taken(positions) for run, _, positions in self._arrangement.matching_rows(probe)]
        if not batches:
            return pa.nulls(len(order), self._type)
        table = pa.Table.from_batches([joined_batches(batches)])
        kind = "max" if self._greatest else "min"
        grouped = table.group_by("0", use_threads=False).aggregate([("1", kind)])
        at = pc.index_in(array_of(self._groups, pa.int32()), value_set=grouped.column("0").combine_chunks())
        return grouped.column(f"1_{kind}").combine_chunks().take(at)


def _groups_of(batch: pa.RecordBatch) -> Codes:
    groups: Codes = raw_values(batch.column(0), np.int32).copy()
    return groups


def _has(groups: Codes, starts: Ints, weights: Ints, wanted_groups: Codes) -> npt.NDArray[np.bool_]:
    """Return which groups have a value with positive weight."""
    living = np.concatenate([[0], np.cumsum(weights > 0)])
    at = np.searchsorted(groups, wanted_groups)
    inside = at < len(groups)
    at = np.where(inside, at, 0)
    if not len(groups):
        return np.zeros(len(wanted_groups), np.bool_)
    has_value: npt.NDArray[np.bool_] = (
        inside & (groups[at] == wanted_groups) & (living[starts[at + 1]] > living[starts[at]])
    )
    return has_value


def _is_coded(of: pa.DataType) -> bool:
    if pat.is_decimal128(of):
        return bool(of.precision <= _CODED_DIGITS)
    is_integer = pat.is_integer(of) and not pat.is_uint64(of)
    return bool(is_integer or pat.is_floating(of) or pat.is_date(of) or pat.is_timestamp(of))


def _codes(values: pa.Array) -> Ints:
    """Return order codes of values."""
    if pat.is_floating(values.type):
        return float_codes(floats(values))
    if pat.is_decimal128(values.type):
        return np.ascontiguousarray(raw_values(values, np.int64)[:, 0])
    if values.type.bit_width == 32 and pat.is_date(values.type):
        values = values.cast(pa.int32())
    if pat.is_integer(values.type):
        values = values.cast(pa.int64())
    codes: Ints = raw_values(values, np.int64)
    return codes


def _values(codes: Ints, of: pa.DataType, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the values of order codes; null where not valid."""
    if pat.is_floating(of):
        return array_of(np.where(valid, floats_of(codes), 0.0), pa.float64(), valid).cast(of, safe=False)
    codes = np.where(valid, codes, 0)
    if pat.is_decimal128(of):
        return array_of(np.stack([codes, codes >> 63], axis=1), of, valid)
    return (
        array_of(codes.astype(np.dtype(f"i{of.bit_width // 8}")), of, valid)
        if not pat.is_unsigned_integer(of)
        else array_of(codes, pa.int64(), valid).cast(of)
    )
