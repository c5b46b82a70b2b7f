"""Joins that store their own rows: those of `juncture.changes`, and outer, inequality and as-of joins in queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from juncture.errors import DataError
from juncture.incremental.changes.change_batch import ChangeBatch, ChangeBatches
from juncture.incremental.changes.identity import ResultChanges, identity_of
from juncture.incremental.operators.asof import AsofOperator
from juncture.incremental.operators.keys import KeyDomain
from juncture.incremental.operators.operator import ViewOperator
from juncture.incremental.operators.pairs import PairOperator, counted
from juncture.incremental.operators.recompute import AggregateOperator, LookupOperator, RecomputeOperator
from juncture.incremental.state.arrangement import Arrangement, Journal, Slots, interval_codes
from juncture.incremental.state.run import Delta, Run
from juncture.incremental.state.tables import StateTable
from juncture.kernels.array_types import Codes, Ints, IntTable, Mask, Words
from juncture.kernels.hash_table import EMPTY
from juncture.matching.asof import AsofCondition, check_asof
from juncture.matching.condition import ComparedRows, condition_of
from juncture.matching.output import Output, stored_schema
from juncture.ordered.arithmetic import MIN_CODE
from juncture.spec.asof import ResolvedAsof
from juncture.spec.many import Duplicates
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

_Compared = Callable[[pa.RecordBatch, Side], ComparedRows]


class JoinSide:
    """The rows of one side, and their changes in this epoch. ``compared`` returns the part that the join compares."""

    def __init__(self, side: Side, arrangement: Arrangement, keys: KeyDomain, compared: _Compared) -> None:
        self.arrangement = arrangement
        self._keys = keys
        self._compared: Callable[[pa.RecordBatch], ComparedRows] = lambda batch: compared(batch, side)
        keys.arrangements.append(arrangement)
        none = np.zeros(0, np.int64)
        self.nothing = self.delta_of(pa.RecordBatch.from_pylist([], self.schema), none, none)
        self.clear()

    @property
    def schema(self) -> pa.Schema:
        """The stored columns."""
        return self.arrangement.schema

    def located(self, batches: ChangeBatches) -> tuple[Delta, ChangeBatch]:
        """Return distinct changes that can be applied, for the next step, and rows with their unmatched deletes."""
        self.clear()
        self.is_located = True
        if not batches:
            return self.nothing, self.nothing.changes
        delta = self._summed(ChangeBatch.joined(batches, self.schema))
        self.delta, self.slots, unmatched = self.arrangement.locate(delta)
        return self.delta, ChangeBatch(delta.batch, unmatched)

    def clear(self) -> None:
        """Discard the changes."""
        self.delta, self.slots, self.is_located = self.nothing, list[Slots](), False

    def delta_of(self, batch: pa.RecordBatch, weights: Ints, hashes: Ints) -> Delta:
        """Return distinct rows as changes."""
        keys, codes = self._coded(batch)
        return Delta.of(batch, weights, keys, codes, hashes)

    def _summed(self, changes: ChangeBatch) -> Delta:
        """Return rows that may be equal as changes."""
        identity = self.arrangement.identity
        try:
            return self.delta_of(*changes, identity.hashes(changes.rows)).summed(identity)
        except DataError:
            # A row with an invalid value is accepted if its changes cancel.
            sums, hashes = identity.consolidated(changes)
            if len(sums.weights) == len(changes.weights):
                raise
        return self.delta_of(*sums, hashes)

    def _coded(self, batch: pa.RecordBatch) -> tuple[Codes, IntTable]:
        compared = self._compared(batch)
        return self._keys.of(compared.keys, batch.num_rows, compared.valid), compared.codes

    def hashes_of(self, batch: pa.RecordBatch) -> Words:
        """Return the key hashes of rows; zero where a row can match nothing."""
        compared = self._compared(batch)
        return self._keys.hashes_of(compared.keys, batch.num_rows, compared.valid)

    def key_hashes(self, run: Run) -> Words:
        """Return the hashes of the keys of a run in memory, in the order of its groups."""
        return self._keys.key_hashes(run, lambda batch: self._compared(batch).keys)

    def superseded(self, batch: pa.RecordBatch, *, limit: int) -> Mask:
        """Return which rows have a first code below a limit, and below that of another such row of their key."""
        keys, codes = self._coded(batch)
        mask: Mask = (keys != EMPTY) & (codes[0] < limit)
        rows = np.flatnonzero(mask)
        distinct, index = np.unique(keys[rows], return_inverse=True)
        last = np.full(len(distinct), MIN_CODE)
        if len(rows):
            self.arrangement.neighbours(distinct, np.full(len(distinct), limit - 1), 1, last, forward=False)
        mask[rows] = codes[0, rows] < last[index]
        return mask

    def _numbers(self, batch: pa.RecordBatch) -> tuple[Codes, IntTable]:
        """Return the key codes of rows, and the lines by which they are found on disk: hashes and codes."""
        keys, codes = self._coded(batch)
        codes[:, keys == EMPTY] = 0
        hashes = self.hashes_of(batch).view(np.int64), self.arrangement.identity.hashes(batch)
        return keys, np.concatenate([np.stack(hashes), codes])

    @property
    def table(self) -> StateTable:
        """The rows as a table."""
        return StateTable(
            self.arrangement,
            self._keys,
            lambda batch: self._coded(batch)[0],
            self.key_hashes,
            len(self.nothing.codes),
            numbers_of=self._numbers,
        )


class StoredJoinOperator(ViewOperator):
    """A join of two inputs that stores their rows, in their types. It returns rows before ``output`` finishes them."""

    multiplies = True

    def __init__(
        self,
        label: str,
        types: Sequence[pa.DataType],
        sources: Mapping[Side, ViewOperator],
        join: Resolved,
        output: Output,
        duplicates: Duplicates | None = None,
    ) -> None:
        """Create a join without rows; with ``duplicates``, a lookup: an equality join with one match per left row."""
        super().__init__(label, types, (sources["left"], sources["right"]))
        self._operator, self.sides, self.keys = _parts_of(join, output, duplicates)
        self._journal = Journal()
        self._worked = False

    def step(self, input_changes: Sequence[ChangeBatches]) -> ChangeBatches:
        """Return the inserted and deleted rows of the join."""
        for each, batches in zip(self.sides.values(), input_changes, strict=True):
            if not each.is_located:
                _, (_, unmatched) = each.located(batches)
                assert not unmatched.any(), f"{self.label} received deletes of rows that it does not store"
        deltas = {side: (each.delta, each.slots) for side, each in self.sides.items()}
        if not any(len(delta) for delta, _ in deltas.values()):
            return []
        self._journal, changes, self._worked = Journal(), ResultChanges(are_wanted=self.is_output_read), True
        take = self._operator.apply if self.rows else self._operator.populate
        take(deltas, self._journal, changes)
        return self._output_rows(changes.batches)

    def _output_rows(self, changes: ChangeBatches) -> ChangeBatches:
        return changes

    @property
    def has_parts(self) -> bool:
        """Whether the join has keys."""
        return self.keys.are_any

    def part_hashes(self, input_number: int, batch: pa.RecordBatch, /) -> Words:
        """Return the hashes of the keys of a side."""
        return self.sides[SIDES[input_number]].hashes_of(batch)

    def commit(self) -> None:
        """Commit the rows of both sides."""
        self._journal = Journal()
        if self._worked:
            for each in self.sides.values():
                each.arrangement.compact()
            self.keys.forget()
        self._forget_step()

    def abandon(self) -> None:
        """Restore the rows of both sides."""
        self._journal.undo()
        self._forget_step()

    def _forget_step(self) -> None:
        self._worked = False
        for each in self.sides.values():
            each.clear()

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The rows of both sides."""
        return {side: each.table for side, each in self.sides.items()}

    @property
    def rows(self) -> int:
        """Number of distinct rows of both sides."""
        return sum(each.arrangement.rows for each in self.sides.values())

    @property
    def fixed_bytes(self) -> int:
        """Bytes of the keys."""
        return self.keys.nbytes


def _parts_of(
    join: Resolved, output: Output, duplicates: Duplicates | None
) -> tuple[PairOperator | RecomputeOperator, dict[Side, JoinSide], KeyDomain]:
    operator: PairOperator | RecomputeOperator
    if isinstance(join, ResolvedAsof):
        check_asof(join, "changing tables")
        asof = AsofCondition(join)
        lines = join.spec.matches if join.how in ("right", "full") else 0
        # Of two equal rows, one may have a match and the other none.
        arrangements: dict[Side, Arrangement] = {
            "left": _rows(join, "left", 2),
            "right": _rows(join, "right", 2, lines, unique=lines > 0),
        }
        operator = AsofOperator(join, arrangements, output)
        keys = KeyDomain(*asof.key_types, nulls_equal=asof.nulls_equal)

        def compared(batch: pa.RecordBatch, side: Side) -> ComparedRows:
            rows = asof.rows(batch, side)
            return replace(rows, codes=interval_codes(rows.codes[0]))
    else:
        condition = condition_of(join, ())
        is_pairs = not join.aggregates and duplicates is None
        has_counts = {side: is_pairs and counted(join.how, side) for side in SIDES}
        arrangements = {side: _rows(join, side, condition.matching, int(has_counts[side])) for side in SIDES}
        if duplicates == "greatest":
            # All columns decide which right row is the greatest.
            arrangements["right"] = Arrangement(
                join.right_schema, identity_of(join.right_schema, "right"), condition.matching, 0
            )
        if join.aggregates:
            operator = AggregateOperator(condition, arrangements)
        elif duplicates is not None:
            operator = LookupOperator(condition, arrangements, duplicates, output)
        else:
            operator = PairOperator(condition, arrangements, output)
        keys, compared = KeyDomain(*condition.key_types, nulls_equal=condition.nulls_equal), condition.rows
    return operator, {side: JoinSide(side, each, keys, compared) for side, each in arrangements.items()}, keys


def _rows(join: Resolved, side: Side, matching: int, lines: int = 0, *, unique: bool = False) -> Arrangement:
    schema = stored_schema(join, side)
    return Arrangement(schema, identity_of(schema, side), matching, lines, unique=unique)
