"""The keys of a side as codes: in a hash table, in one for each partition, or by their distance from the least key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from juncture.columnar.arrays import array_of
from juncture.columnar.key_encoding import KeyHashes
from juncture.columnar.key_table import DenseKeys, KeyCodes, counts_steps
from juncture.kernels.array_types import Codes, Ints, Words
from juncture.kernels.hash_table import EMPTY
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.language.types import arrow_type
from juncture.runtime.context import JoinContext
from juncture.runtime.scan import ends_of_column
from juncture.runtime.sources import Source
from juncture.runtime.take import take
from juncture.spec.condition import EqualValues
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side


class Keys(Protocol):
    """The distinct keys of one side, each with a code."""

    @property
    def count(self) -> int:
        """How many codes there are."""
        ...

    def add(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of this side, `EMPTY` for those that cannot match."""
        ...

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of the other side; `EMPTY` where no row added has the key."""
        ...


def left_keys_of(join: Resolved, left: Source) -> Keys:
    """Return a table for the keys of a join's left side, to look up those of the right one."""
    dense = dense_keys_of(left, join.left_by, join.key_types, nulls_equal=join.nulls_equal)
    return dense or KeyCodes(*join.key_types, nulls_equal=join.nulls_equal)


def dense_keys_of(
    source: Source,
    names: Sequence[str],
    types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]],
    *,
    nulls_equal: bool,
) -> DenseKeys | None:
    """Return codes of keys in a narrow range; None if the range is wide, or not known without reading a file."""
    if len(names) != 1 or nulls_equal or not counts_steps(types[0][0]):
        return None
    return DenseKeys.of(types[0][0], types[1][0], ends_of_column(source, names[0]), source.num_rows)


def partition_rows(hashes: Words, count: int) -> tuple[Ints, list[int]]:
    """Return rows in the order of their partition, the highest bits of the hash, and its starts, the end at last."""
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
                    part_codes = np.empty(end - first, np.int32)
                    self._tables[partition].add([column.slice(first, end - first) for column in columns], part_codes)
                    codes[order[first:end]] = self._global_codes(part_codes, partition)

        context.threads.run(build, range(len(self._tables)))
        self._waiting = []

    def find(self, columns: list[pa.Array], codes: Codes) -> None:
        """Write the codes of rows of the other side; `EMPTY` where no row taken has the key."""
        order, edges = self._parted(columns)
        for partition, table in enumerate(self._tables):
            rows = order[edges[partition] : edges[partition + 1]]
            if len(rows):
                index = array_of(rows, pa.int64())
                part_codes = np.empty(len(rows), np.int32)
                table.find([take(column, index) for column in columns], part_codes)
                codes[rows] = self._global_codes(part_codes, partition)

    def _parted(self, columns: list[pa.Array]) -> tuple[Ints, list[int]]:
        return partition_rows(self._hashes.of(columns)[0], len(self._tables))

    def _global_codes(self, codes: Codes, partition: int) -> Codes:
        """Return codes that differ between partitions too."""
        return np.where(codes == EMPTY, np.int32(EMPTY), codes * np.int32(len(self._tables)) + np.int32(partition))


def equal_types(equalities: Iterable[EqualValues], side: Side) -> list[pa.DataType]:
    """Return the types of the key columns that equal expressions make of a side's rows."""
    types = []
    for equality in equalities:
        value = equality.type or arrow_type((equality.left if side == "left" else equality.right).type)
        types += [pa.bool_(), value] if equality.null_safe else [value]
    return types


def equal_columns(equalities: Iterable[EqualValues], side: Side, rows: pa.RecordBatch | pa.Table) -> list[pa.Array]:
    """Return the key columns that equal expressions make of a side's rows."""
    columns = []
    for equality in equalities:
        values = evaluate(equality.left if side == "left" else equality.right, **{side: rows})
        if equality.type is not None:
            values = values.cast(equality.type, safe=False)
        if equality.null_safe:
            columns += [pc.is_null(values), pc.fill_null(values, _zero(values.type))]
        else:
            columns.append(values)
    return columns


def _zero(data_type: pa.DataType) -> pa.Scalar:
    """Return a value that stands for nulls; their validity is compared separately."""
    if pa.types.is_boolean(data_type):
        return pa.scalar(False)
    if pa.types.is_decimal(data_type):
        return pa.scalar(Decimal(0), data_type)
    if pa.types.is_string(data_type):
        return pa.scalar("")
    if pa.types.is_binary(data_type):
        return pa.scalar(b"")
    if pa.types.is_date32(data_type):
        return pa.scalar(0, pa.int32()).cast(data_type)
    return pa.scalar(0, pa.int64()).cast(data_type)
