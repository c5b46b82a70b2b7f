"""The resources of a join: threads, memory, spill folder and progress callback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from juncture.runtime.memory import MEMORY_BYTES, MemoryBudget
from juncture.runtime.progress import Progress, Report
from juncture.runtime.spill import SpillFolder
from juncture.runtime.threads import Threads


@dataclass(frozen=True)
class JoinContext:
    """What a join may use, made once where it begins and handed down as one argument.

    Attributes
    ----------
    threads
        Who works.
    memory
        How much may be held, and which parts of the work have reserved how much of it.
    spill
        Where to put what does not fit.
    progress
        Progress callback.
    in_order
        Whether rows have to come in the order of the left ones.
    """

    threads: Threads
    memory: MemoryBudget
    spill: SpillFolder
    progress: Progress
    in_order: bool = True

    def alone(self) -> JoinContext:
        """Return the same for work that one thread does by itself: others may be waiting for it, or busy."""
        return replace(self, threads=Threads(1))

    def quiet(self) -> JoinContext:
        """Return the same context without the progress callback."""
        return replace(self, progress=Progress())

    def within(self, memory: MemoryBudget) -> JoinContext:
        """Return the same for a part of the join that may hold what was reserved for it."""
        return replace(self, memory=memory)

    def streaming(self, share: float) -> JoinContext:
        """Return the same with a share of the memory reserved for rows under way, which threads keep to."""
        rows = self.memory.reserve("rows under way", share)
        return replace(self, threads=self.threads.within(rows.total_bytes))


@contextmanager
def join_context(
    *,
    threads: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    in_order: bool = True,
    report: Report | None = None,
) -> Iterator[JoinContext]:
    """Yield what a join may use; in the end its threads are gone and its spill folder removed.

    Parameters
    ----------
    threads
        How many; by default one for each core that this process may use.
    memory_bytes
        How much may be held.
    in_order
        Whether rows have to come in the order of the left ones.
    report
        Called from the calling thread as the join goes on.

    Examples
    --------
    >>> with join_context(threads=1, memory_bytes=10**9) as context:
    ...     context.memory.reserve("left rows", 1 / 4).total_bytes
    250000000
    """
    memory = MemoryBudget(memory_bytes)
    with Threads(threads) as pool, SpillFolder(memory=memory) as spill:
        yield JoinContext(pool, memory, spill, Progress(report), in_order)
