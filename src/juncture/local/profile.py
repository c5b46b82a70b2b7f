"""What happens while an in-process join runs: rows, time by phase, spilled bytes, peak memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from juncture.kernels.compiled import compile_seconds
from juncture.local.kinds import execute
from juncture.planner.report import Measured
from juncture.runtime.context import JoinContext
from juncture.runtime.memory import peak_memory_bytes
from juncture.runtime.sources import Source
from juncture.spec.resolved import Resolved


@dataclass(frozen=True)
class Opened:
    """A join whose sides are ready to be read, and the algorithm that joins them."""

    join: Resolved
    left: Source
    right: Source
    algorithm: str

    def batches(self, context: JoinContext) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the join."""
        return execute(self.join, self.left, self.right, self.algorithm, context)


def measure(
    opened: Callable[[JoinContext], Opened], context: JoinContext, take: Callable[[pa.RecordBatch], object]
) -> Measured:
    """Open a join and run it, hand on each batch of the result, and return what happened."""
    earlier_peak_bytes, earlier_compile_s = peak_memory_bytes(), compile_seconds()
    progress, rows = context.progress, 0
    inputs = opened(context)
    progress.extend("inputs")
    for batch in inputs.batches(context):
        rows += batch.num_rows
        take(batch)
    progress.extend("output")
    return Measured(
        algorithm=inputs.algorithm,
        duration_s=progress.seconds,
        compile_s=compile_seconds() - earlier_compile_s,
        left_rows=inputs.left.num_rows,
        right_rows=inputs.right.num_rows,
        output_rows=rows,
        phases=tuple(progress.phases),
        spilled_bytes=context.spill.spilled_bytes,
        peak_memory_bytes=peak_memory_bytes(),
        earlier_peak_bytes=earlier_peak_bytes,
    )
