"""A batch of rows that are held, whichever way they are sorted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from juncture.kernels.array_types import Mask


@dataclass(frozen=True)
class HeldBatch:
    """Rows that were held together.

    Attributes
    ----------
    batch
        The rows. The same object for as long as they are together, so that they are known again by it.
    alive, matched
        Of all these rows, which are held still, and which have had a match.
    """

    batch: pa.RecordBatch
    alive: Mask
    matched: Mask
