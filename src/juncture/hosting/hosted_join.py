"""What differs between joins of streams, joins of changes and views, which one stateful operator runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from juncture.hosting.buckets import Buckets
from juncture.kernels.array_types import Ints
from juncture.spark.tasks.packets import Packet
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Name = TypeVar("Name", bound=str)
"""The name of a table of stored rows, such as a side."""

State = npt.NDArray[np.bool_] | Ints
"""What changes of stored rows: a line per number, a column per row. A row whose first number is zero is deleted."""


@dataclass(frozen=True)
class StoredBatch:
    """Stored rows. ``source`` is the same object while they stay together.

    ``state`` returns the state of its rows, which is the same while ``version`` is, unless that is None.
    """

    source: object
    state: Callable[[], State]
    version: int | None = None


@dataclass(frozen=True)
class LoadedBatch:
    """Rows from the state store: their source, and its positions in the batch from the store; None for the same."""

    source: object
    positions: Ints | None = None


class Bucket(Protocol[Name]):
    """The rows of some keys, and their join. The rows are in a state store between micro-batches."""

    @property
    def names(self) -> Sequence[Name]:
        """The tables of stored rows, such as the sides of a join."""

    def step(self, packets: Iterable[Packet], /) -> list[pa.RecordBatch]:
        """Apply the packets of a micro-batch, and return the results."""

    def metrics(self) -> Mapping[str, float | None]:
        """Return the metrics of the last step."""

    def progress(self) -> dict[str, Any]:
        """Return the progress as plain data, without rows."""

    def load(self, name: Name, batch: pa.RecordBatch, state: State, /) -> LoadedBatch:
        """Store rows of a table from the state store."""

    def batches(self, name: Name, /) -> Iterator[StoredBatch]:
        """Yield the stored rows of a table."""

    def rows(self, stored: StoredBatch, positions: Ints, /) -> pa.RecordBatch:
        """Return some rows of a batch, as `load` receives them."""


class Hosted(ABC):
    """The definition of what runs in Spark's stateful operator. It is sent to tasks."""

    version: ClassVar[str]  # of the state; change it with each change of the format
    kind: ClassVar[str] = "join"  # for messages
    state_type: ClassVar[npt.DTypeLike]  # of the state of stored rows

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, str]:
        """Names of the metrics of a bucket, with their Spark types."""

    @property
    def shared(self) -> Sequence[object] | None:
        """What buckets refer to and never changes. None means that buckets are read from the state store only."""
        return None

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the definition as plain data."""

    @abstractmethod
    def bucket(self, progress: Mapping[str, Any] | None) -> Bucket[Any]:
        """Return a bucket without rows, with the progress of an earlier one."""

    @abstractmethod
    def observed(self, results: DataFrame) -> DataFrame:
        """Return results unchanged, with metrics that Spark reports."""


class HostedJoin(Hosted):
    """A join, whose rows are sent to buckets by key."""

    @property
    @abstractmethod
    def join(self) -> Resolved:
        """The join in the types of stored rows."""

    @abstractmethod
    def columns(self, side: Side) -> Sequence[str]:
        """Return the columns of a side that tasks read."""

    @abstractmethod
    def packets(self, side: Side, tables: Iterable[pa.Table], buckets: Buckets) -> Iterator[Packet]:
        """Yield what the rows of a side in one task send to buckets."""
