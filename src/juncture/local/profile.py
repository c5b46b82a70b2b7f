"""What happens while an in-process join runs: rows, time by phase, spilled bytes, peak memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.planner.plan import Progress
from juncture.planner.run import Phase, Run
from juncture.runtime.memory import peak_memory_bytes
from juncture.runtime.sources import Source
from juncture.runtime.spill import SpillFolder

__all__ = ["Opened", "measure"]


@dataclass(frozen=True)
class Opened:
    """Both sides, ready to be read, and the algorithm that joins them."""

    left: Source
    right: Source
    algorithm: str


def measure(
    opened: Callable[[SpillFolder], Opened],
    stream: Callable[..., Iterator[pa.RecordBatch]],
    spill: SpillFolder,
    take: Callable[[pa.RecordBatch], object],
    progress: Progress | None = None,
) -> Run:
    """Run a join, and return what happened.

    Parameters
    ----------
    opened
        Opens both sides, and says by which algorithm they are joined.
    stream
        Runs the join of them, as `juncture.local.kinds.Stream` does.
    spill
        Where to put what does not fit; closed when the join has ended.
    take
        Given each batch of the result.
    progress
        Called as the join goes on.
    """
    earlier_peak_bytes, timeline, rows = peak_memory_bytes(), _Timeline(progress), 0
    with spill:
        inputs = opened(spill)
        left, right = inputs.left, inputs.right
        timeline.extend("inputs")
        for batch in stream(left, right, algorithm=inputs.algorithm, spill=spill, progress=timeline.report):
            rows += batch.num_rows
            take(batch)
        timeline.extend("output")
        return Run(
            algorithm=inputs.algorithm,
            seconds=timeline.seconds,
            left_rows=left.num_rows,
            right_rows=right.num_rows,
            rows=rows,
            phases=tuple(timeline.phases),
            spilled_bytes=spill.spilled_bytes,
            peak_memory_bytes=peak_memory_bytes(),
            earlier_peak_bytes=earlier_peak_bytes,
        )


class _Timeline:
    """Makes phases of reports of progress, each of which says what the time since the last one was spent on."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._began = time.perf_counter()
        self.seconds = 0.0
        self.phases: list[Phase] = []

    def report(self, phase: str, done: int, total: int) -> None:
        """Note how far a phase is, and pass it on."""
        self.extend(phase)
        if self._progress is not None:
            self._progress(phase, done, total)

    def extend(self, phase: str) -> None:
        """Note that a phase has taken all time until now."""
        start_s, self.seconds = self.seconds, time.perf_counter() - self._began
        if self.phases and self.phases[-1].name == phase:
            start_s = self.phases.pop().start_s
        self.phases.append(Phase(name=phase, start_s=start_s, seconds=self.seconds - start_s))
