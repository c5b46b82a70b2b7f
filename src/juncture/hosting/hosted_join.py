"""What differs between joins of streams and joins of changes, which one stateful operator runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.kernels.array_types import Ints
from juncture.spark.tasks.packets import Packet
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

State = npt.NDArray[np.bool_] | npt.NDArray[np.int64]
"""What changes of stored rows: a line per number, a column per row. A row whose first number is zero is deleted."""


@dataclass(frozen=True)
class StoredBatch:
    """Stored rows. ``source`` is the same object while they stay together; ``positions`` are those of the rows."""

    source: object
    state: State
    positions: Ints


class Sender(Protocol):
    """Prepares the rows of one side in one task for their buckets."""

    def rows(self, table: pa.Table, /) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yield rows with their key columns, and as they are sent."""

    def unkeyed(self, batch: pa.RecordBatch, /) -> Ints:
        """Return numbers that place rows that can match nothing."""

    def frontier(self) -> pa.Table | None:
        """Return what every bucket receives after the rows; None for nothing."""


class Bucket(Protocol):
    """The rows of some keys, and their join. The rows are in a state store between micro-batches."""

    def step(self, packets: Iterable[Packet], /) -> list[pa.RecordBatch]:
        """Apply the packets of a micro-batch, and return the results."""

    def metrics(self) -> Mapping[str, float | None]:
        """Return the metrics of the last step."""

    def progress(self) -> dict[str, Any]:
        """Return the progress as plain data, without rows."""

    def load(self, side: Side, batch: pa.RecordBatch, state: State, /) -> StoredBatch:
        """Store rows from the state store. The positions of the result are those in ``batch``."""

    def batches(self, side: Side, /) -> Iterator[StoredBatch]:
        """Yield the stored rows of a side."""

    def rows(self, stored: StoredBatch, positions: Ints, /) -> pa.RecordBatch:
        """Return some rows of a batch, as `load` receives them."""


class HostedJoin(Protocol):
    """The definition of a join that runs in Spark's stateful operator. It is sent to tasks."""

    @property
    def version(self) -> str:
        """Version of the state; change it with each change of the format."""

    @property
    def state_type(self) -> npt.DTypeLike:
        """Type of the state of stored rows."""

    @property
    def metrics(self) -> Mapping[str, str]:
        """Names of the metrics of a bucket, with their Spark types."""

    @property
    def join(self) -> Resolved:
        """The join in the types of stored rows."""

    def described(self) -> dict[str, Any]:
        """Return the definition as plain data."""

    def columns(self, side: Side, /) -> Sequence[str]:
        """Return the columns of a side that tasks read."""

    def sender(self, side: Side, /) -> Sender:
        """Return a sender for one task."""

    def bucket(self, progress: Mapping[str, Any] | None, /) -> Bucket:
        """Return a bucket without rows, with the progress of an earlier one."""

    def observed(self, results: DataFrame, /) -> DataFrame:
        """Return results unchanged, with metrics that Spark reports."""
