"""Inner joins by equal keys, of any number of inputs, over arranged rows.

Δ(A ⋈ B ⋈ C) = ΔA ⋈ B ⋈ C + A' ⋈ ΔB ⋈ C + A' ⋈ B' ⋈ ΔC, where A' = A + ΔA. The changes of each input are joined to one
other input after the other, by key lookups. The operator stores no rows and no intermediate results. Joins share
arrangements, and no input is buffered for another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import joined_batches, rows_at, true_rows
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.changes.identity import consolidated
from juncture.incremental.expressions.expression import TRUE, Expression, all_of, columns_of, evaluate, shifted
from juncture.incremental.operators.arranged import ArrangedOperator
from juncture.incremental.operators.keys import KeyDomain
from juncture.incremental.operators.operator import ViewOperator, batch_of
from juncture.incremental.state.run import Delta, matches_in
from juncture.kernels.array_types import Codes, Ints, Positions
from juncture.kernels.hash_table import EMPTY

_CHUNK_ROWS = 1 << 18  # rows to join at a time

Piece = tuple[Ints, pa.RecordBatch, Codes, Ints]
"""Row numbers with a match, the matching batch, positions in it, and weights."""
KnownKeys = tuple[KeyDomain, tuple[Expression, ...]]


@dataclass(frozen=True)
class Lookup:
    """A step of a path: lookup of rows in the arrangement of another input."""

    part: int
    arranged: ArrangedOperator
    keys: tuple[Expression, ...]  # over the columns of all inputs in sequence
    condition: Expression  # over the same columns
    is_changed: bool  # whether rows after the epoch match

    @cached_property
    def read_by_keys(self) -> frozenset[int]:
        """Positions of the columns that the keys read."""
        return frozenset(column for key in self.keys for column in key.columns)


@dataclass(frozen=True)
class JoinPath:
    """The lookups, in order, for the changes of one input. ``condition`` reads that input alone."""

    part: int
    start: ArrangedOperator
    condition: Expression
    lookups: tuple[Lookup, ...]


@dataclass(frozen=True)
class _Joined:
    """Joined rows of inputs. ``rows`` has row numbers per input; None for all in order. ``codes`` caches key codes."""

    weights: Ints
    batches: Mapping[int, pa.RecordBatch]
    rows: Mapping[int, Positions | None]
    codes: Mapping[KnownKeys, Codes]

    def some(self, rows: Ints) -> _Joined:
        index = {part: rows if old is None else old[rows] for part, old in self.rows.items()}
        return _Joined(self.weights[rows], self.batches, index, {key: each[rows] for key, each in self.codes.items()})

    def of(self, part: int, columns: Sequence[int]) -> pa.RecordBatch:
        batch, rows = self.batches[part].select(columns), self.rows[part]
        return batch if rows is None else rows_at(batch, rows)


class JoinOperator(ViewOperator):
    """Joins inputs by equal keys and conditions. ``output_columns`` are positions among the columns of all inputs."""

    multiplies = True

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        inputs: Sequence[ArrangedOperator],
        widths: Sequence[int],
        paths: Sequence[JoinPath],
        output_columns: Sequence[int],
    ) -> None:
        super().__init__(label, types, inputs)
        self._first = np.concatenate([[0], np.cumsum(widths)]).tolist()
        self._owner = [part for part, width in enumerate(widths) for _ in range(width)]
        self._output_columns = output_columns
        self._arranged = inputs
        self._paths = [(path, self._read_by(path), self._prefilters(path)) for path in paths]

    @property
    def starts(self) -> list[ArrangedOperator]:
        """The arrangements whose changes the join follows."""
        return [path.start for path, *_ in self._paths]

    @property
    def arrangements(self) -> list[set[ArrangedOperator]]:
        """The arrangements of each input that the join reads."""
        arrangements = [{each} for each in self._arranged]
        for path, *_ in self._paths:
            arrangements[path.part].add(path.start)
            for each in path.lookups:
                arrangements[each.part].add(each.arranged)
        return arrangements

    def expected_rows(self, rows: Sequence[float]) -> float:
        """Return the number of rows with all their matches, if keys have as many as they have on average."""
        paths = [(rows[path.part], [each.arranged.rows_per_key for each in path.lookups]) for path, *_ in self._paths]
        return sum(start * prod(matches) for start, matches in paths if start)

    def _keys_of(self, part: int, arranged: ArrangedOperator) -> KnownKeys:
        return arranged.domain, tuple(shifted(key, self._first[part]) for key in arranged.keys)

    def _prefilters(self, path: JoinPath) -> list[ArrangedOperator]:
        """Return arrangements by which changes are skipped before lookups; none if only the first lookup has one."""
        equal = {self._keys_of(path.part, path.start)}
        arrangements = []
        for each in path.lookups:
            if (each.arranged.domain, each.keys) in equal:
                equal.add(self._keys_of(each.part, each.arranged))
                arrangements.append(each.arranged)
        if arrangements == [path.lookups[0].arranged]:
            return []
        for arranged in arrangements:
            arranged.notes_keys = True
        return arrangements

    @property
    def reads(self) -> Collection[ViewOperator]:
        """The arranged inputs, some of them by several keys."""
        return set[ViewOperator]().union(*self.arrangements)

    @property
    def has_parts(self) -> bool:
        """Whether all lookups of a path have the key by which its changes are arranged."""
        if any(len(each) > 1 for each in self.arrangements):
            return False
        for path, *_ in self._paths:
            equal = {self._keys_of(path.part, path.start)}
            for each in path.lookups:
                if not each.keys or (each.arranged.domain, each.keys) not in equal:
                    return False
                equal.add(self._keys_of(each.part, each.arranged))
        return True

    def _read_by(self, path: JoinPath) -> dict[int, list[int]]:
        index_keys = {self._keys_of(path.part, path.start)}
        read = {*self._output_columns, *path.condition.columns}
        for each in path.lookups:
            index_key = each.arranged.domain, each.keys
            if index_key not in index_keys:
                read |= each.read_by_keys
            index_keys |= {index_key, self._keys_of(each.part, each.arranged)}
            read |= each.condition.columns
        return {
            part: [column for column in range(first, end) if column in read]
            for part, (first, end) in enumerate(zip(self._first, self._first[1:], strict=False))
        }

    def step(self, _flows: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the inserted and deleted rows of the join."""
        try:
            return self._changes()
        except pa.ArrowException:
            return self._changes_by_last_conditions()

    def _changes_by_last_conditions(self) -> ChangeBatches:
        """Return the changes with conditions computed last, for rows that remain when weights cancel.

        An old row of one input and a new row of another one meet within the epoch, and a condition may fail for them.
        """
        paths = [path for path, *_ in self._paths]
        conditions = [paths[0].condition, *(each.condition for each in paths[0].lookups)]
        columns = sorted({*self._output_columns, *columns_of(conditions)})
        types = [
            self._arranged[part].schema.types[column - self._first[part]]
            for column, part in ((column, self._owner[column]) for column in columns)
        ]
        unconditional = [
            replace(path, condition=TRUE, lookups=tuple(replace(each, condition=TRUE) for each in path.lookups))
            for path in paths
        ]
        widths = np.diff(self._first).tolist()
        joined = JoinOperator(self.label, types, self._arranged, widths, unconditional, columns)
        at = {column: number for number, column in enumerate(columns)}
        condition = shifted(all_of(conditions), at)
        changes: ChangeBatches = []
        for batch, weights in consolidated(joined._changes(), joined.schema):
            rows = true_rows(evaluate(condition, batch.columns, batch.num_rows))
            output = batch_of([batch.column(at[column]) for column in self._output_columns], self.schema)
            changes.append(ChangeBatch(output, weights).some(rows))
        return changes

    def _changes(self) -> ChangeBatches:
        changes: ChangeBatches = []
        for path, read, prefilters in self._paths:
            delta = _may_match(path.start.delta, prefilters)
            if delta is None:
                continue
            for first in range(0, len(delta), _CHUNK_ROWS):
                changes += self._followed(path, read, delta, slice(first, first + _CHUNK_ROWS))
        return changes

    def _followed(
        self, path: JoinPath, read: Mapping[int, list[int]], delta: Delta, some: slice
    ) -> Iterator[ChangeBatch]:
        batch = delta.batch.slice(some.start, some.stop - some.start)
        batch = batch.select([column - self._first[path.part] for column in read[path.part]])
        codes = {self._keys_of(path.part, path.start): delta.keys[some]}
        rows = _Joined(delta.weights[some], {path.part: batch}, {path.part: None}, codes)
        yield from self._joined(self._where(rows, path.condition, read), path.lookups, read)

    def _joined(self, rows: _Joined, lookups: Sequence[Lookup], read: Mapping[int, list[int]]) -> Iterator[ChangeBatch]:
        """Yield the results of the remaining lookups for some rows."""
        if not len(rows.weights):
            return
        if not lookups:
            yield ChangeBatch(self._output(rows, read), rows.weights)
            return
        for matches in self._lookup_matches(rows, lookups[0], read):
            yield from self._joined(self._where(matches, lookups[0].condition, read), lookups[1:], read)

    def _output(self, rows: _Joined, read: Mapping[int, list[int]]) -> pa.RecordBatch:
        arrays: dict[int, pa.Array] = {}
        for part, columns in read.items():
            wanted = [column for column in columns if column in self._output_columns]
            if wanted:
                batch = rows.of(part, [columns.index(column) for column in wanted])
                arrays |= dict(zip(wanted, batch.columns, strict=True))
        return batch_of([arrays[column] for column in self._output_columns], self.schema)

    def _columns(self, rows: _Joined, wanted: Iterable[int], read: Mapping[int, list[int]]) -> list[pa.Array | None]:
        arrays: list[pa.Array | None] = [None] * len(self._owner)
        for column in wanted:
            part = self._owner[column]
            arrays[column] = rows.of(part, [read[part].index(column)]).column(0)
        return arrays

    def _where(self, rows: _Joined, condition: Expression, read: Mapping[int, list[int]]) -> _Joined:
        if condition == TRUE or not len(rows.weights):
            return rows
        arrays = self._columns(rows, condition.columns, read)
        matching_rows = true_rows(evaluate(condition, arrays, len(rows.weights)))
        return rows if len(matching_rows) == len(rows.weights) else rows.some(matching_rows)

    def _lookup_matches(self, rows: _Joined, lookup: Lookup, read: Mapping[int, list[int]]) -> Iterator[_Joined]:
        """Yield rows with their matches in an arrangement, about ``_CHUNK_ROWS`` at a time."""
        arranged, index_key = lookup.arranged, (lookup.arranged.domain, lookup.keys)
        codes = rows.codes.get(index_key)
        if codes is None:
            arrays = self._columns(rows, lookup.read_by_keys, read)
            count = len(rows.weights)
            codes = arranged.domain.find([evaluate(key, arrays, count) for key in lookup.keys], count)
            rows = _Joined(rows.weights, rows.batches, rows.rows, {**rows.codes, index_key: codes})
        columns = [column - self._first[lookup.part] for column in read[lookup.part]]
        pieces: list[Piece] = []
        waiting = 0
        for piece in matches_of(codes, arranged, is_changed=lookup.is_changed):
            pieces.append(piece)
            waiting += len(piece[0])
            if waiting >= _CHUNK_ROWS:
                yield self._with_matches(rows, lookup, pieces, columns)
                pieces, waiting = [], 0
        if pieces:
            yield self._with_matches(rows, lookup, pieces, columns)

    def _with_matches(self, rows: _Joined, lookup: Lookup, pieces: Sequence[Piece], columns: Sequence[int]) -> _Joined:
        left_rows = rows.some(np.concatenate([rows_with_match for rows_with_match, *_ in pieces]))
        # Matches in several batches are copied now. Matches in one batch are copied after the remaining lookups.
        batch = pieces[0][1].select(columns)
        index: Positions | None = pieces[0][2]
        if len(pieces) > 1 and columns:
            copies = [rows_at(each.select(columns), positions) for _, each, positions, _ in pieces]
            batch, index = joined_batches(copies), None
        codes = {
            **left_rows.codes,
            self._keys_of(lookup.part, lookup.arranged): left_rows.codes[lookup.arranged.domain, lookup.keys],
        }
        return _Joined(
            left_rows.weights * np.concatenate([weights for *_, weights in pieces]),
            {**left_rows.batches, lookup.part: batch},
            {**left_rows.rows, lookup.part: index if columns else None},
            codes,
        )


def _may_match(delta: Delta, prefilters: Sequence[ArrangedOperator]) -> Delta | None:
    """Return the changes whose keys may have rows in all of some arrangements; None if there are none."""
    rows, keys = np.arange(len(delta)), delta.keys
    for arranged in prefilters:
        mask = arranged.may_have(keys)
        if mask is not None:
            rows, keys = rows[mask], keys[mask]
        if not len(rows):
            return None
    return delta.some(rows)


def matches_of(codes: Codes, arranged: ArrangedOperator, *, is_changed: bool) -> Iterator[Piece]:
    """Yield the rows with matches in an arrangement and the positions of the matches, in pieces."""
    order = np.flatnonzero(codes != EMPTY)
    if len(order) < len(codes):
        codes = codes[order]
    if (codes[1:] < codes[:-1]).any():
        by_code = np.argsort(codes, kind="stable")
        order, codes = order[by_code], codes[by_code]
    no_codes = np.zeros((0, len(codes)), np.int64)
    pages = arranged.arrangement.pages
    passing = () if pages is None else pages.pass_matches(codes, no_codes)
    arranged.arrangement.count_search(len(codes))
    runs = list(arranged.arrangement.runs)
    # Rows that this epoch deletes must not match, because joins of many inputs would multiply pairs that cancel out.
    deletes = arranged.deletes(runs) if is_changed else None
    for run, rows, positions in matches_in(chain(runs, passing), codes, no_codes):
        weights = run.weights[positions]
        if deletes and id(run) in deletes:
            weights = weights + _changes_at(*deletes[id(run)], positions)
            living = np.flatnonzero(weights)
            rows, positions, weights = rows[living], positions[living], weights[living]
        if len(rows):
            yield order[rows], run.batch, positions, weights
    delta = arranged.delta
    if deletes is not None:
        delta = delta.some(np.flatnonzero(delta.weights > 0))
    if is_changed and len(delta):
        for run, rows, positions in matches_in([delta.as_run()], codes, no_codes):
            yield order[rows], run.batch, positions, delta.weights[positions]


def _changes_at(changed: Ints, changes: Ints, positions: Positions) -> Ints:
    """Return the changes at some positions, given the sorted positions of all changes; zero elsewhere."""
    at = np.minimum(np.searchsorted(changed, positions), len(changed) - 1)
    return np.where(changed[at] == positions, changes[at], 0)
