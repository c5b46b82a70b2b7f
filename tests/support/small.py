"""Joins whose work is divided into pieces of a few rows, so that small tables take the paths of large ones."""

from __future__ import annotations

from typing import Any

from juncture.local.plan import plan
from juncture.planner.plan import Plan
from juncture.planner.statistics import Resources, Stats
from juncture.runtime.memory import MEMORY_BYTES
from juncture.runtime.threads import Sizes
from support.kinds import Spec

__all__ = ["SMALL", "plan_in_pieces"]

SMALL = Sizes(slice_rows=2, task_rows=1, cache_rows=1, block_rows=1)


def plan_in_pieces(
    left: Any,
    right: Any,
    spec: Spec,
    *,
    algorithm: str = "auto",
    memory_bytes: int = MEMORY_BYTES,
    cores: int = 1,
    stats: Stats | None = None,
) -> Plan:
    """Plan a join in small pieces, and within less memory than `juncture.plan` accepts."""
    resources = Resources(cores=cores, memory_bytes=memory_bytes, sizes=SMALL)
    return plan(spec, left, right, algorithm=algorithm, stats=stats, resources=resources)
