"""What happens while an in-process join runs: rows, time by phase, spilled bytes, peak memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.planner.run import Run
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import peak_memory_bytes
from juncture.runtime.sources import Source

__all__ = ["Opened", "measure"]


@dataclass(frozen=True)
class Opened:
    """Both sides, ready to be read, and the algorithm that joins them."""

    left: Source
    right: Source
    algorithm: str


def measure(
    opened: Callable[[JoinContext], Opened],
    execute: Callable[[Opened, JoinContext], Iterator[pa.RecordBatch]],
    context: JoinContext,
    take: Callable[[pa.RecordBatch], object],
) -> Run:
    """Run a join, and return what happened.

    Parameters
    ----------
    opened
        Opens both sides, and says by which algorithm they are joined.
    execute
        Runs the join of what was opened.
    context
        What the join may use.
    take
        Given each batch of the result.
    """
    earlier_peak_bytes, progress, rows = peak_memory_bytes(), context.progress, 0
    inputs = opened(context)
    progress.extend("inputs")
    for batch in execute(inputs, context):
        rows += batch.num_rows
        take(batch)
    progress.extend("output")
    return Run(
        algorithm=inputs.algorithm,
        seconds=progress.seconds,
        left_rows=inputs.left.num_rows,
        right_rows=inputs.right.num_rows,
        rows=rows,
        phases=tuple(progress.phases),
        spilled_bytes=context.spill.spilled_bytes,
        peak_memory_bytes=peak_memory_bytes(),
        earlier_peak_bytes=earlier_peak_bytes,
    )
