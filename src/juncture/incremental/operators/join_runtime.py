"""Creates the operator of a maintained join: its keys, codes and arrangements, by the kind of join."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.columnar.arrays import joined_batches
from juncture.errors import DataError, SchemaError
from juncture.incremental.changes.identity import Changes, NoIdentityError, RowIdentity
from juncture.incremental.operators.asof import AsofOperator
from juncture.incremental.operators.keys import HashedKeys
from juncture.incremental.operators.pairs import PairOperator, counted
from juncture.incremental.operators.recompute import AggregateOperator
from juncture.incremental.state.arrangement import Arrangement, Delta, Journal, Place, interval_codes
from juncture.kernels.array_types import Codes, Ints, Words
from juncture.kernels.hash_table import EMPTY
from juncture.matching.asof import AsofCondition, check_asof
from juncture.matching.condition import ComparedRows, condition_of
from juncture.matching.output import Output, stored_schema
from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved
from juncture.spec.schema import SIDES, Side

Lines = npt.NDArray[np.int64]

Deltas = Mapping[Side, tuple[Delta, list[Place]]]
"""The delta of each side, and where its rows are stored."""


class Operator(Protocol):
    """Applies changes of both sides, and computes those of the result."""

    def apply(self, deltas: Deltas, journal: Journal, changes: Changes, /) -> None:
        """Apply changes of both sides, and add the changes of the result."""

    def populate(self, deltas: Deltas, journal: Journal, changes: Changes, /) -> None:
        """Add the first rows of both sides, and their results."""


@dataclass(frozen=True)
class JoinRuntime:
    """A maintained join: its operator, the arrangements of both sides, and their keys."""

    operator: Operator
    arrangements: Mapping[Side, Arrangement]
    keys: HashedKeys
    _compared: Callable[[pa.RecordBatch, Side], ComparedRows]

    def delta(self, side: Side, batch: pa.RecordBatch, weights: Ints, hashes: Ints) -> Delta:
        """Return distinct rows as changes."""
        keys, codes = self._coded(side, batch)
        return Delta.of(batch, weights, keys, codes, hashes)

    def summed_delta(self, side: Side, batches: Sequence[pa.RecordBatch], weights: Ints) -> Delta:
        """Return rows that may be equal as changes."""
        batch, identity = joined_batches(list(batches)), self.arrangements[side].identity
        try:
            return self.delta(side, batch, weights, identity.hashes(batch)).summed(identity)
        except DataError:
            # A row with an invalid value is accepted if its changes cancel.
            distinct, sums, hashes = identity.consolidated([batch], weights)
            if len(sums) == batch.num_rows:
                raise
        return self.delta(side, distinct, sums, hashes)

    def hashes_of(self, side: Side, batch: pa.RecordBatch) -> Words:
        """Return the key hashes of rows; zero where a row can match nothing."""
        compared = self._compared(batch, side)
        return self.keys.hashes_of(compared.keys, compared.valid)

    def keys_of(self, side: Side, batch: pa.RecordBatch) -> Codes:
        """Return the key codes of rows."""
        return self._coded(side, batch)[0]

    def numbers(self, side: Side, batch: pa.RecordBatch) -> tuple[Codes, Lines]:
        """Return the key codes of rows, and the lines by which they are found on disk: hashes and codes."""
        keys, codes = self._coded(side, batch)
        codes[:, keys == EMPTY] = 0
        hashes = self.keys.hashes(keys).view(np.int64), self.arrangements[side].identity.hashes(batch)
        return keys, np.concatenate([np.stack(hashes), codes])

    def _coded(self, side: Side, batch: pa.RecordBatch) -> tuple[Codes, Lines]:
        compared = self._compared(batch, side)
        return self.keys.of(compared.keys, compared.valid, batch.num_rows), compared.codes

    def nothing(self, side: Side) -> Delta:
        """Return an empty delta of a side."""
        none = np.zeros(0, np.int64)
        return self.delta(side, pa.RecordBatch.from_pylist([], self.arrangements[side].schema), none, none)

    def compact(self) -> None:
        """Merge runs, and release unused key codes."""
        for arrangement in self.arrangements.values():
            arrangement.compact()
        self.keys.forget()


def join_runtime(join: Resolved, output: Output) -> JoinRuntime:
    """Return a maintained join without rows. ``join`` is in the types of stored rows."""
    return _asof(join, output) if isinstance(join, ResolvedAsof) else _by_condition(join, output)


def _asof(join: ResolvedAsof, output: Output) -> JoinRuntime:
    check_asof(join, "changing tables")
    schemas = {side: stored_schema(join, side) for side in SIDES}
    lines = join.spec.matches if join.how in ("right", "full") else 0
    arrangements: dict[Side, Arrangement] = {
        "left": Arrangement(schemas["left"], identity_of(schemas["left"], "left"), 2),
        # Of two equal rows, one may have a match and the other none.
        "right": Arrangement(schemas["right"], identity_of(schemas["right"], "right"), 2, lines, unique=lines > 0),
    }

    condition = AsofCondition(join)

    def compared(batch: pa.RecordBatch, side: Side) -> ComparedRows:
        rows = condition.rows(batch, side)
        return replace(rows, codes=interval_codes(rows.codes[0]))

    keys = HashedKeys(condition.key_types, arrangements, nulls_equal=condition.nulls_equal)
    return JoinRuntime(AsofOperator(join, arrangements, output), arrangements, keys, compared)


def _by_condition(join: Resolved, output: Output) -> JoinRuntime:
    condition = condition_of(join, ())
    arrangements: dict[Side, Arrangement] = {}
    for side in SIDES:
        schema = stored_schema(join, side)
        lines = int(not join.aggregates and counted(join.how, side))
        arrangements[side] = Arrangement(schema, identity_of(schema, side), condition.matching, lines)
    operator: Operator = (
        AggregateOperator(condition, arrangements) if join.aggregates else PairOperator(condition, arrangements, output)
    )
    keys = HashedKeys(condition.key_types, arrangements, nulls_equal=condition.nulls_equal)
    return JoinRuntime(operator, arrangements, keys, condition.rows)


def identity_of(schema: pa.Schema, table: str) -> RowIdentity:
    """Return the row identity of a table; raises `SchemaError` if a column cannot be compared."""
    try:
        return RowIdentity(schema)
    except NoIdentityError as error:
        raise SchemaError(
            f"The {table} column {error.column!r} has type {error.data_type}, whose values cannot be compared, so "
            "deletes cannot be matched to rows. Cast or drop the column.",
            name="JN-TYPE-UNSUPPORTED",
        ) from None
