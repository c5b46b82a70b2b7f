"""What a join in this process may use, before it begins."""

from __future__ import annotations

from juncture.errors import PlanError
from juncture.planner.constants import constants_at_hand
from juncture.planner.statistics import Resources
from juncture.runtime.memory import LEAST_MEMORY_BYTES, default_budget_bytes
from juncture.runtime.threads import available_cores
from juncture.spec.size import format_size, size_bytes


def resources_here(memory: str | int | None, *, in_order: bool = True) -> Resources:
    """Return the resources of a join with a memory limit; by default a share of the machine's memory."""
    budget = default_budget_bytes() if memory is None else size_bytes(memory, argument="memory")
    if budget < LEAST_MEMORY_BYTES:
        raise PlanError(
            f"memory= leaves {format_size(budget)} for the join, but the minimum is {format_size(LEAST_MEMORY_BYTES)}. "
            f"Pass memory='{LEAST_MEMORY_BYTES // 10**6}MB' or more.",
            name="JN-MEMORY-MINIMUM",
        )
    return Resources(cores=available_cores(), memory_bytes=budget, constants=constants_at_hand(), in_order=in_order)
