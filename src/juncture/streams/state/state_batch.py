"""A batch of stored rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from juncture.kernels.array_types import Mask


@dataclass(frozen=True)
class StateBatch:
    """Stored rows. ``batch`` is the same object while they stay together; ``alive`` and ``matched`` are masks of it."""

    batch: pa.RecordBatch
    alive: Mask
    matched: Mask
