"""The resources of a join: threads, memory, spill folder and progress callback."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from juncture.runtime.memory import MEMORY_BYTES, MemoryBudget, pooled_array
from juncture.runtime.progress import Progress, Report
from juncture.runtime.spill import SpillFolder
from juncture.runtime.threads import SIZES, Sizes, Threads

_POOLED_BYTES_MOST = 64 << 20
"""The size up to which arrays are in memory that the allocator keeps for others."""


@dataclass(frozen=True)
class JoinContext:
    """The resources of a join, created once at its start. `in_order` requires rows in the order of the left rows."""

    threads: Threads
    memory: MemoryBudget
    spill: SpillFolder
    progress: Progress
    in_order: bool = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.threads.close()
        finally:
            self.spill.close()

    def alone(self) -> JoinContext:
        """Return the context with one thread, for a task that runs in parallel with others."""
        return self if self.threads.count == 1 else replace(self, threads=Threads(1, self.threads.sizes))

    def array(self, shape: int | tuple[int, ...], data_type: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array without values, in memory that later ones reuse unless it is large or memory is short."""
        length = math.prod(shape) if isinstance(shape, tuple) else shape
        if self.threads.is_frugal or length * np.dtype(data_type).itemsize > _POOLED_BYTES_MOST:
            return np.empty(shape, data_type)
        return pooled_array(length, data_type).reshape(shape)

    def quiet(self) -> JoinContext:
        """Return the same context without the progress callback."""
        return replace(self, progress=Progress())

    def within(self, memory: MemoryBudget) -> JoinContext:
        """Return the context for a part of the join with reserved memory."""
        return replace(self, memory=memory)

    def streaming(self, share: float) -> JoinContext:
        """Return the context with a share of the memory reserved for rows in flight, which limits its threads."""
        rows = self.memory.reserve("rows under way", share)
        threads = self.threads.within(rows.total_bytes)
        return JoinContext(threads, self.memory, self.spill, self.progress, self.in_order)


def join_context(
    *,
    threads: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    in_order: bool = True,
    report: Report | None = None,
    sizes: Sizes = SIZES,
) -> JoinContext:
    """Return the resources of a join. When the context ends, threads are stopped and the spill folder is removed.

    `threads` defaults to the available cores. `report` is called from the calling thread.
    """
    memory = MemoryBudget(memory_bytes)
    return JoinContext(Threads(threads, sizes), memory, SpillFolder(memory=memory), Progress(report), in_order)
