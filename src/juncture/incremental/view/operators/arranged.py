"""Rows held by a key: what several joins look up, and each takes changes of, is held once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.key_table import KeyCodes
from juncture.errors import SchemaError
from juncture.incremental.arrangement import Arrangement, Delta, Journal, Place
from juncture.incremental.identity import NoIdentityError, RowIdentity
from juncture.incremental.view.expressions import Expression, evaluate
from juncture.incremental.view.operators.operator import Flow, ViewOperator, as_one
from juncture.kernels.array_types import Codes, Ints

_KEYS_LEAST = 1 << 12
"""Keys up to which those that nobody has any more are not looked for."""


def identity_of(schema: pa.Schema, what: str) -> RowIdentity:
    """Return what tells which rows are equal.

    Raises
    ------
    SchemaError
        If values of a column have no equality.
    """
    try:
        return RowIdentity(schema)
    except NoIdentityError as error:
        raise SchemaError(
            f"A column of {what} is of type {error.data_type}, whose values have no equality, so that nothing tells "
            "which row is deleted. Cast the column, or leave it out."
        ) from None


class KeyDomain:
    """Codes for keys that are compared with each other, of all that is arranged by them."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._codes = KeyCodes(types, types)
        self.members: list[ArrangedOperator] = []

    def of(self, columns: list[pa.Array], rows: int) -> Codes:
        """Return the codes of rows; `EMPTY` where a value is null."""
        keys = np.empty(rows, np.int32)
        self._codes.add(columns, keys)
        return keys

    def found(self, columns: list[pa.Array], rows: int) -> Codes:
        """Return the codes of rows; `EMPTY` where a value is null, or no row that is arranged has the key."""
        keys = np.empty(rows, np.int32)
        self._codes.find(columns, keys)
        return keys

    def forget(self) -> None:
        """Forget keys that no held row has, once they may be the most; not while changes wait that have codes."""
        count = self._codes.count
        if not count or count < _KEYS_LEAST + 4 * sum(member.rows for member in self.members):
            return
        used = np.zeros(self._codes.count, np.bool_)
        for member in self.members:
            used |= member.arrangement.keys(len(used))
        mapping = self._codes.compact(used)
        for member in self.members:
            member.arrangement.rekey(mapping)


class ArrangedOperator(ViewOperator):
    """The rows of an input, by a key.

    Parameters
    ----------
    label, source
        What it is called, and whose rows they are.
    keys, domain
        The key of each row, and what gives codes to it.

    Attributes
    ----------
    keys, domain
        The key of each row, and what gives codes to it.
    arrangement
        The rows as they were before the epoch.
    delta
        What changes in it.
    keeps
        Whether rows are held: not where nothing is ever looked up among them.
    """

    def __init__(self, label: str, source: ViewOperator, keys: Sequence[Expression], domain: KeyDomain) -> None:
        super().__init__(label, source.schema.types, (source,))
        self.identity = identity_of(self.schema, label)
        self.arrangement = Arrangement(self.schema, self.identity, 0)
        self.keeps = False
        self.keys = keys
        self.domain = domain
        domain.members.append(self)
        none = np.zeros(0, np.int64)
        self._nothing = self.delta_of(pa.RecordBatch.from_pylist([], self.schema), none, none)
        self.delta = self._nothing
        self._places: list[Place] = []
        self._located: tuple[Delta, list[Place]] | None = None

    def located(self, flow: Flow) -> tuple[Delta, Ints]:
        """Find what changes of the input can be made, which the next step then takes as they are.

        Returns
        -------
        delta
            The changes, each once, but for deletes of rows that are not there.
        missing
            How many deletes of each row found none.
        """
        batch, weights = as_one(flow, self.schema)
        delta, places, missing = self.arrangement.locate(self.delta_of(*self.identity.consolidated([batch], weights)))
        self._located = delta, places
        return delta, missing

    def delta_of(self, batch: pa.RecordBatch, weights: Ints, hashes: Ints) -> Delta:
        """Return distinct rows as changes."""
        keys = [evaluate(key, batch.columns, batch.num_rows) for key in self.keys]
        codes = self.domain.of(keys, batch.num_rows)
        return Delta.of(batch, weights, codes, np.zeros((0, batch.num_rows), np.int64), hashes)

    def step(self, flows: Sequence[Flow]) -> Flow:
        """Take note of what changes, and give each change once."""
        self.delta, self._places = self._nothing, []
        if not flows[0]:
            return []
        if self._located is not None:
            self.delta, self._places = self._located
            return flows[0]
        batch, weights = as_one(flows[0], self.schema)
        if not self.keeps:
            self.delta = self.delta_of(batch, weights, np.zeros(len(weights), np.int64))
            return [(self.delta.batch, self.delta.weights)]
        self.delta = self.delta_of(*self.identity.consolidated([batch], weights))
        if not len(self.delta):
            return []
        self.delta, self._places, missing = self.arrangement.locate(self.delta)
        assert not missing.any(), f"{self.label} was given deletes of rows that it does not hold"
        return [(self.delta.batch, self.delta.weights)]

    def commit(self) -> None:
        """Hold the rows as they are now."""
        if self.keeps and len(self.delta):
            none = np.zeros((0, len(self.delta)), np.int64)
            self.arrangement.change(self.delta, self._places, none, Journal())
            self.arrangement.compact()
        self.abandon()

    def abandon(self) -> None:
        """Forget what was about to change."""
        self.delta, self._places = self._nothing, []
        self._located = None

    @property
    def rows(self) -> int:
        """How many distinct rows are held."""
        return self.arrangement.rows

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self.arrangement.nbytes
