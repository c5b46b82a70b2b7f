"""The public functions: a join in one call, or planned first and run later."""

from __future__ import annotations

from juncture.join.asof import join_asof
from juncture.join.overlap import join_overlap
from juncture.join.planning import plan
from juncture.join.range import join_range
from juncture.join.where import join_where

__all__ = ["join_asof", "join_overlap", "join_range", "join_where", "plan"]
