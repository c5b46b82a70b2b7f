"""The base class of the operators of stream joins, and the interface of the rows that they store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from juncture.columnar.key_table import KeyCodes
from juncture.kernels.array_types import Mask
from juncture.matching.asof import AsofCondition
from juncture.matching.condition import Condition
from juncture.matching.keys import JoinKeys
from juncture.spec.schema import Side
from juncture.streams.frontier import Frontier
from juncture.streams.state.keyed import arrange
from juncture.streams.state.segment import Arranged, StateBatch


class StateView(Protocol):
    """The stored rows of one side. ``evicted`` counts rows that were evicted."""

    evicted: int

    @property
    def rows(self) -> int:
        """Number of stored rows."""

    @property
    def nbytes(self) -> int:
        """Memory of the stored rows."""

    def batches(self) -> Iterator[StateBatch]:
        """Yield the batches that the rows are in. Loaded rows may be in the same objects that were loaded."""


class StreamOperator(ABC):
    """Takes rows of both sides, stores rows that may still match, and yields final results. ``failed`` ends it."""

    def __init__(
        self, condition: Condition | AsofCondition, frontiers: Mapping[Side, Frontier], stores: Mapping[Side, Any]
    ) -> None:
        self.failed = False
        self.stores: Mapping[Side, StateView] = stores
        self._frontiers = frontiers
        self._compared = condition.rows
        self._keys = JoinKeys(KeyCodes(*condition.key_types, nulls_equal=condition.nulls_equal), [*stores.values()])

    def _arranged(self, side: Side, batch: pa.RecordBatch) -> Arranged:
        """Return the rows of a batch that have a key, by key and first code."""
        compared = self._compared(batch, side)
        keys = self._keys.of(compared.keys, batch.num_rows, compared.valid)
        return arrange(keys, compared.codes, self._keys.count)

    @abstractmethod
    def take(self, side: Side, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results of new rows of a side, after its frontier has advanced past them."""

    @abstractmethod
    def expire(self, side: Side) -> Iterator[pa.RecordBatch]:
        """Evict rows that the frontier of a side has passed, and yield the results of that."""

    @abstractmethod
    def load(self, side: Side, batch: pa.RecordBatch, matched: Mask) -> None:
        """Store rows from a checkpoint."""
