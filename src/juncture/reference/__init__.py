"""The definition of every join, by brute force: slow, short and obviously right.

Every algorithm on every engine has to give these rows. Nothing here is shared with the engines, but the evaluation of
predicates, which has tests of its own.
"""

from __future__ import annotations

from juncture.reference.asof import asof_join
from juncture.reference.equi import equi_join
from juncture.reference.overlap import overlap_join
from juncture.reference.range import range_join
from juncture.reference.where import where_join

__all__ = ["asof_join", "equi_join", "overlap_join", "range_join", "where_join"]
