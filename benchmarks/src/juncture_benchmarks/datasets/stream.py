"""Generated tables for joins of streams: a key, and a number that grows but for some steps of one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["growing_table"]

_BACK_SHARE = 0.3
"""Share of rows with the number of the previous row."""


def growing_table(rows: int, keys: int, seed: int) -> pa.Table:
    """Return rows with a key at random, ``k``, and their number, ``a``: of three in ten the one before.

    Examples
    --------
    >>> growing_table(5, 1, seed=1)["a"].to_pylist()
    [0, 1, 1, 3, 4]
    """
    chance = np.random.default_rng(seed)
    numbers = np.arange(rows)
    numbers -= (chance.random(rows) < _BACK_SHARE) & (numbers > 0)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64(), nullable=False)])
    return pa.table([pa.array(chance.integers(0, keys, rows)), pa.array(numbers)], schema=schema)
