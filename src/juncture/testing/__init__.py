"""The definition of every join, by brute force: slow, short and obviously right.

Every algorithm on every engine has to give these rows. Nothing here is shared with the engines, but the evaluation of
predicates, which has tests of its own.
"""

from __future__ import annotations

from juncture.testing.asof import asof_join
from juncture.testing.equi import equi_join
from juncture.testing.overlap import overlap_join
from juncture.testing.range import range_join
from juncture.testing.where import where_join

__all__ = ["asof_join", "equi_join", "overlap_join", "range_join", "where_join"]
