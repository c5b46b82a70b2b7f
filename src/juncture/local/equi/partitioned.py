"""Dense codes for keys, given by several threads at once: each has the keys of one partition, and shares nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of
from juncture.columnar.hashes import KeyHashes
from juncture.columnar.key_table import KeyCodes
from juncture.kernels.array_types import Codes, Ints, Words
from juncture.kernels.hash_table import EMPTY
from juncture.runtime.context import JoinContext
from juncture.runtime.take import take


def partition_rows(hashes: Words, count: int) -> tuple[Ints, list[int]]:
    """Return rows in the order of their partition, stably, and where each partition starts; the end at last.

    The highest bits of the hash decide.
    """
    parts = ((hashes >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.uint16)
    edges = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=count))])
    return np.argsort(parts, kind="stable"), edges.tolist()


class PartitionedKeys:
    """The distinct keys of one side, and the code of each, as `juncture.columnar.key_table.KeyCodes` has them.

    The types of the key columns are first those of the side whose keys are added. There are at most 65,536
    `partitions`. Codes are dense within a partition: of n keys some n / partitions each, whatever the keys, because a
    hash splits them.
    """

    def __init__(
        self, left: Sequence[pa.DataType], right: Sequence[pa.DataType], *, nulls_equal: bool, partitions: int
    ) -> None:
        self._hashes = KeyHashes(left, right, nulls_equal=nulls_equal)
        self._tables = [KeyCodes(left, right, nulls_equal=nulls_equal) for _ in range(partitions)]
        self._waiting: list[tuple[list[pa.Array], Ints, list[int], Codes]] = []

    @property
    def count(self) -> int:
        """How many codes there are; some may belong to no row."""
        return max(table.count for table in self._tables) * len(self._tables)

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Take rows; their codes are written by `finish`."""
        order, edges = self._parted(columns)
        index = array_of(order, pa.int64())
        self._waiting.append(([take(column, index) for column in columns], order, edges, codes))

    def finish(self, context: JoinContext) -> None:
        """Write the codes of all rows taken: each thread gives those of a partition."""

        def build(partition: int) -> None:
            for columns, order, edges, codes in self._waiting:
                first, end = edges[partition : partition + 2]
                if first < end:
                    found = np.empty(end - first, np.int32)
                    self._tables[partition].add([column.slice(first, end - first) for column in columns], found)
                    codes[order[first:end]] = self._whole(found, partition)

        context.threads.run(build, range(len(self._tables)))
        self._waiting = []

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of the other side; `EMPTY` where no row taken has the key."""
        order, edges = self._parted(columns)
        for partition, table in enumerate(self._tables):
            rows = order[edges[partition] : edges[partition + 1]]
            if len(rows):
                index = array_of(rows, pa.int64())
                found = np.empty(len(rows), np.int32)
                table.find([take(column, index) for column in columns], found)
                codes[rows] = self._whole(found, partition)

    def _parted(self, columns: list[pa.Array]) -> tuple[Ints, list[int]]:
        return partition_rows(self._hashes.of(columns)[0], len(self._tables))

    def _whole(self, codes: Codes, partition: int) -> Codes:
        """Return codes that differ between partitions too."""
        return np.where(codes == EMPTY, np.int32(EMPTY), codes * np.int32(len(self._tables)) + np.int32(partition))
