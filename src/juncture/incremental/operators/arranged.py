"""Rows arranged by a key. Joins that look up the same rows by the same key share one arrangement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.changes.identity import RowIdentity, identity_of
from juncture.incremental.expressions.expression import Expression, evaluate
from juncture.incremental.operators.keys import KeyDomain
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.operators.order import RowOrder
from juncture.incremental.state.arrangement import Arrangement, Journal, Slots, interval_codes
from juncture.incremental.state.run import Delta, Run, RunConcatenator
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Codes, Ints, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.runtime.memory import release_unused

_SIGN = np.uint64(1 << 63)  # row hashes are ordered as signed integers

_PART_ROWS = 1 << 20  # an epoch with more rows is arranged in parts, if no operator reads them
_HASHED_ROWS = 1 << 18  # about the most rows of a part


class ArrangedOperator(ViewOperator):
    """The rows of an input arranged by a key: ``arrangement`` before the epoch, and ``delta``, its changes."""

    def __init__(
        self,
        label: str,
        source: ViewOperator,
        keys: Sequence[Expression],
        domain: KeyDomain,
        order: RowOrder | None = None,
    ) -> None:
        super().__init__(label, source.schema.types, (source,))
        self.identity = identity_of(self.schema, label)
        self._order = order
        self._code_lines = 0 if order is None else 2
        self.arrangement = Arrangement(self.schema, self.identity, self._code_lines)
        self.keeps = False  # whether rows are looked up and therefore stored
        self.notes_keys = False  # whether to record the keys for `may_have`
        self.emits_distinct = False  # whether each changed row is returned once
        self.is_last = False  # whether no operator reads the delta
        self._recorded_keys: Mask = np.zeros(0, np.bool_)
        self.keys = keys
        self.domain = domain
        self._generation = domain.generation
        domain.arrangements.append(self.arrangement)
        none = np.zeros(0, np.int64)
        self._nothing = self.delta_of(pa.RecordBatch.from_pylist([], self.schema), none, none)
        self.delta = self._nothing
        self._slots: list[Slots] = []
        self._located: tuple[Delta, list[Slots]] | None = None

    def located(self, batches: ChangeBatches) -> tuple[Delta, ChangeBatch]:
        """Return distinct changes that can be applied, for the next step, and rows with their unmatched deletes."""
        changes = self._changes_of(ChangeBatch.joined(batches, self.schema))
        delta, slots, unmatched = self.arrangement.locate(changes)
        self._located = delta, slots
        return delta, ChangeBatch(changes.batch, unmatched)

    def living(self) -> Iterator[ChangeBatch]:
        """Yield the distinct rows with their weights."""
        return self.arrangement.living()

    def _changes_of(self, changes: ChangeBatch) -> Delta:
        """Return changes that do not cancel each other as a delta. Equal inserted rows may stay separate."""
        delta = self.delta_of(*changes, self.identity.hashes(changes.rows))
        return delta if not self.emits_distinct and (changes.weights > 0).all() else delta.summed(self.identity)

    def keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the key columns of rows."""
        return [evaluate(key, batch.columns, batch.num_rows) for key in self.keys]

    def codes_of(self, batch: pa.RecordBatch) -> Codes:
        """Return the key codes of rows."""
        return self.domain.of(self.keys_of(batch), batch.num_rows)

    def delta_of(self, batch: pa.RecordBatch, weights: Ints, hashes: Ints) -> Delta:
        """Return distinct rows as a delta."""
        none = np.zeros((0, batch.num_rows), np.int64)
        codes = none if self._order is None else interval_codes(self._order.codes(batch))
        return Delta.of(batch, weights, self.codes_of(batch), codes, hashes)

    def part_hashes(self, _input_number: int, batch: pa.RecordBatch, /) -> Words:
        """Return the hashes of the keys; without keys, those of whole rows, which are not read by key."""
        if self.keys:
            return self.domain.hashes_of(self.keys_of(batch), batch.num_rows)
        return self.identity.hashes(batch).view(np.uint64) ^ _SIGN

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Compute the delta, and return each changed row once."""
        self.delta, self._slots = self._nothing, []
        if self._located is not None:
            self.delta, self._slots = self._located
            self._note()
            return input_changes[0]
        if (
            self.is_last
            and not self.keys
            and self._order is None
            and sum(len(weights) for _, weights in input_changes[0]) > _PART_ROWS
        ):
            return self._step_in_parts(input_changes[0])
        changes = ChangeBatch.joined(input_changes[0], self.schema)
        if not self.keeps:
            self.delta = self.delta_of(*changes, np.zeros(len(changes.weights), np.int64))
            self._note()
            return [self.delta.changes]
        self.delta = self._changes_of(changes)
        if not len(self.delta):
            return []
        self.delta, self._slots, missing = self.arrangement.locate(self.delta)
        assert not missing.any(), f"{self.label} received deletes of rows that it does not store"
        self._note()
        return [self.delta.changes]

    def _step_in_parts(self, batches: ChangeBatches) -> ChangeBatches:
        """Compute the delta in ranges of hashes, so that rows are copied in parts. Inserts and deletes are apart."""
        changes: ChangeBatches = []
        deleted: dict[int, list[Slots]] = {}
        without_nulls = [
            not any(batch.column(index).null_count for batch, _ in batches) for index in range(len(self.schema))
        ]
        count = sum(int(np.count_nonzero(weights > 0)) for _, weights in batches)
        inserts = RunConcatenator(count, self.schema, without_nulls, (0, 0), 0)
        for each in _by_hash(batches, self.identity):
            part = self.delta_of(*each, self.identity.hashes(each.rows)).summed(self.identity)
            inserts.add(part.some(np.flatnonzero(part.weights > 0)).as_run())
            deletes, slots, missing = self.arrangement.locate(part.some(np.flatnonzero(part.weights < 0)))
            assert not missing.any(), f"{self.label} received deletes of rows that it does not store"
            slots = [replace(each, rows=each.rows[:0].copy()) for each in slots]
            self._slots += slots
            if len(slots) == 1 and len(slots[0].positions) == len(deletes):
                deleted.setdefault(id(slots[0].run), []).append(slots[0])
            else:
                changes.append(deletes.changes)
        for slots in deleted.values():
            # All rows of a run are returned without a copy.
            rows = slots[0].run.taken(np.concatenate([each.positions for each in slots]))
            changes.append(ChangeBatch(rows, np.concatenate([each.weights for each in slots])))
        inserted = inserts.run()
        if inserted is not None:
            run, _ = inserted
            self.delta = run.rows
            changes.append(self.delta.changes)
        return [each for each in changes if len(each[1])]

    def deletes(self, runs: Sequence[Run]) -> dict[int, tuple[Ints, Ints]] | None:
        """Return sorted positions and changes of weights of deletes, by run; None if blocks were fetched again."""
        by_run: dict[int, list[Slots]] = {}
        for each in self._slots:
            by_run.setdefault(id(each.run), []).append(each)
        if not self.keeps or not by_run.keys() <= {id(run) for run in runs}:
            return None
        result = {}
        for run, slots in by_run.items():
            positions, inverse = np.unique(np.concatenate([each.positions for each in slots]), return_inverse=True)
            changes = np.zeros(len(positions), np.int64)
            np.add.at(changes, inverse, np.concatenate([each.weights for each in slots]))
            result[run] = positions, changes
        return result

    def _note(self) -> None:
        if self.notes_keys:
            coming = self.delta.keys[self.delta.weights > 0]
            recorded = self._room()
            recorded[coming[coming != EMPTY]] = True

    def _room(self) -> Mask:
        """Return the recorded keys, with a slot for each code. The last slot is for `EMPTY`, and False."""
        if self._generation != self.domain.generation:
            self._record_keys()
        if len(self._recorded_keys) <= self.domain.count:
            self._recorded_keys = np.pad(self._recorded_keys, (0, 2 * self.domain.count + 1 - len(self._recorded_keys)))
        return self._recorded_keys

    def may_have(self, keys: Codes) -> Mask | None:
        """Return which keys may have rows, including changes; None if all may. False positives are possible."""
        return None if self.arrangement.pages is not None else self._room()[keys]

    def _record_keys(self) -> None:
        """Record the keys of all rows, for example after they got other codes."""
        self._generation = self.domain.generation
        if self.notes_keys:
            self._recorded_keys = self.arrangement.keys(self.domain.count)

    def commit(self) -> None:
        """Apply the delta to the rows."""
        if self.keeps and len(self.delta):
            none = np.zeros((0, len(self.delta)), np.int64)
            self.arrangement.change(self.delta, self._slots, none, Journal())
            self.arrangement.compact()
        is_large = len(self.delta) > _PART_ROWS
        self.abandon()
        if is_large:
            release_unused()

    def abandon(self) -> None:
        """Discard the delta."""
        self.delta, self._slots = self._nothing, []
        self._located = None

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The rows, if they are stored."""
        if not self.keeps:
            return {}
        hashes = partial(self.domain.key_hashes, keys_of=self.keys_of)
        lines = self._code_lines
        return {
            "rows": StateTable(self.arrangement, self.domain, self.codes_of, hashes, lines, loaded=self._record_keys)
        }

    @property
    def rows(self) -> int:
        """Number of distinct rows."""
        return self.arrangement.rows

    @property
    def rows_per_key(self) -> float:
        """About how many rows a key has on average; 1 without rows."""
        memory, pages = self.arrangement.memory, self.arrangement.pages
        rows: float = sum(run.living_rows for run in memory)
        keys: float = len(np.unique(np.concatenate([run.groups for run in memory]))) if memory else 0
        for run in [] if pages is None else pages.stored:
            rows, keys = rows + run.living_rows, keys + run.about_keys()
        return max(1.0, rows / max(1.0, keys))

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the recorded keys."""
        return self._recorded_keys.nbytes


def _by_hash(batches: ChangeBatches, identity: RowIdentity) -> Iterator[ChangeBatch]:
    """Yield changes in ascending ranges of row hashes. ``batches`` is emptied."""
    bits = (sum(len(weights) for _, weights in batches) // _HASHED_ROWS).bit_length()
    parts: list[ChangeBatches] = [[] for _ in range(1 << bits)]
    while batches:
        change = batches.pop()
        # Hashes take less time than their memory is worth: they are computed again for each part.
        numbers = ((identity.hashes(change.rows) >> (64 - bits)) + (1 << bits >> 1)).astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        for part, rows in zip(parts, np.split(order, np.cumsum(np.bincount(numbers))), strict=False):
            part.append(change.some(rows))
    for part in parts:
        if part:
            joined = ChangeBatch.joined(part, part[0].rows.schema)
            part.clear()
            release_unused()
            yield joined
