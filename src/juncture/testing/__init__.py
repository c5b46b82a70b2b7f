"""The definition of every join, by brute force: slow, short and simple.

Every algorithm on every engine must return these rows. The evaluation of predicates is the only code that engines share
with this package; it has tests of its own.
"""

from __future__ import annotations

from juncture.testing.asof import asof_join
from juncture.testing.pairs import equi_join, overlap_join, range_join, where_join
from juncture.testing.replay import replay

__all__ = ["asof_join", "equi_join", "overlap_join", "range_join", "replay", "where_join"]
