"""Where rows of both sides of a join by inequalities lie on a line, so that rows far from each other never meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from juncture.columnar.arrays import array_of, raw_values
from juncture.kernels.array_types import Ints
from juncture.local.inequality.index import BuildKeys
from juncture.local.inequality.probe import ProbeKeys
from juncture.ordered.arithmetic import GREATEST, LEAST


@dataclass(frozen=True)
class KeyRangeRules:
    """How the key ranges of rows are computed.

    `code` returns what the join compares of a batch of right rows, given the number of its first row; the rows are
    sorted by these codes. `rough` returns codes of right rows that do not fit 64 bits, in their order, though different
    values may have equal codes; None if the order of the right rows suffices. `check` refuses wrong left rows of a
    batch, given the number of its first row.
    """

    code: Callable[[pa.RecordBatch, int], BuildKeys]
    seek: Callable[[pa.RecordBatch], ProbeKeys]  # returns the limits of the rows of a left batch
    rough: Callable[[pa.RecordBatch], Ints] | None = None
    check: Callable[[pa.RecordBatch, int], None] | None = None
    by_row: bool = False  # whether matches of a left row come in the order of the right rows, not of their codes


LEFT_FIELDS = ("low", "high", "threshold", "place")
"""What is added to left rows: limits of the right codes that may match, the least second code that may, and which of
these brings rows of like reach together."""

RIGHT_FIELDS = ("code", "leaf")
"""What is added to right rows: their code, and their second one."""


@dataclass(frozen=True)
class BuildRange:
    """The least and the greatest code of some right rows, and their greatest second code."""

    first: int
    last: int
    leaf: int

    @classmethod
    def of(cls, codes: Ints, leaves: Ints) -> BuildRange:
        """Return the extent of ascending codes."""
        return cls(int(codes[0]), int(codes[-1]), int(leaves.max()))

    def joined(self, other: BuildRange) -> BuildRange:
        """Return the extent of both."""
        return BuildRange(min(self.first, other.first), max(self.last, other.last), max(self.leaf, other.leaf))


@dataclass(frozen=True)
class ProbeRange:
    """The least and the greatest right code that some left rows may match, and the least second code that they ask."""

    low: int
    high: int
    threshold: int

    @classmethod
    def of(cls, low: Ints, high: Ints, threshold: Ints) -> ProbeRange:
        """Return the reach of left rows."""
        return cls(int(low.min()), int(high.max()), int(threshold.min()))

    def joined(self, other: ProbeRange) -> ProbeRange:
        """Return the reach of both."""
        return ProbeRange(min(self.low, other.low), max(self.high, other.high), min(self.threshold, other.threshold))

    def meets(self, extent: BuildRange) -> bool:
        """Return whether right rows of an extent may match."""
        return self.low <= extent.last and self.high >= extent.first and self.threshold <= extent.leaf


def left_fields(probe_keys: ProbeKeys, rows: int) -> list[Ints]:
    """Return the `LEFT_FIELDS` of left rows. Those that can match nothing reach nothing."""
    limits = [
        np.full(rows, default) if found is None else found
        for found, default in ((probe_keys.low, LEAST), (probe_keys.high, GREATEST), (probe_keys.thresholds, LEAST))
    ]
    if probe_keys.possible is not None:
        limits = [
            np.where(probe_keys.possible, found, nowhere)
            for found, nowhere in zip(limits, (GREATEST, LEAST, GREATEST), strict=True)
        ]
    # Of two limits, the lower one is the start of an interval.
    if probe_keys.low is not None:
        return [*limits, limits[0]]
    return [*limits, limits[2 if probe_keys.thresholds is not None else 1]]


def right_fields(coded: BuildKeys, rows: int) -> list[Ints]:
    """Return the `RIGHT_FIELDS` of right rows. Those that can match nothing come last."""
    codes = np.zeros(rows, np.int64) if coded.on is None else coded.on
    leaves = np.full(rows, GREATEST) if coded.leaves is None else coded.leaves
    if coded.valid is not None:
        codes, leaves = np.where(coded.valid, codes, GREATEST), np.where(coded.valid, leaves, LEAST)
    return [codes, leaves]


def with_fields(batch: pa.RecordBatch, values: list[Ints], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with more columns of integers."""
    return pa.RecordBatch.from_arrays([*batch.columns, *(array_of(each, pa.int64()) for each in values)], schema=schema)


def last_fields(batch: pa.RecordBatch, count: int) -> tuple[pa.RecordBatch, list[Ints]]:
    """Return a batch without its last columns, and these."""
    kept = batch.num_columns - count
    values = [raw_values(batch.column(number), np.int64) for number in range(kept, batch.num_columns)]
    return batch.select(range(kept)), values
