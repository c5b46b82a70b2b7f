"""What happened when a join ran."""

from __future__ import annotations

from dataclasses import dataclass

from juncture.runtime.progress import Phase


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What happened when a join ran. None stands for what cannot be known, and ``unknown`` says why.

    Attributes
    ----------
    algorithm
        The algorithm that ran: another than the plan's where a stream turned out too large for that.
    duration_s
        Wall time.
    compile_s
        The part of `duration_s` in which kernels were compiled, or loaded if an earlier process had compiled them: once
        per process. On Spark, workers do that.
    left_rows, right_rows
        Rows of the inputs.
    output_rows
        Rows of the result.
    phases
        What took how long, in the order of time. A join that works in turns has several of one name.
    shuffle_bytes
        On Spark, bytes that tasks wrote for others to read.
    spilled_bytes
        Bytes written to temporary files.
    peak_memory_bytes
        The most memory that the process has held since it started.
    earlier_peak_bytes
        The same when the join began. Where both are equal, the join stayed below them.
    task_bytes
        On Spark, the most that one task held in tables and sorts of the JVM; what its Python held is not among it.
    unknown
        What is not known, with the reason: pairs of a heading and a text.
    """

    algorithm: str | None = None
    duration_s: float
    compile_s: float | None = None
    left_rows: int | None = None
    right_rows: int | None = None
    output_rows: int
    phases: tuple[Phase, ...] = ()
    shuffle_bytes: int | None = None
    spilled_bytes: int | None = None
    peak_memory_bytes: int | None = None
    earlier_peak_bytes: int | None = None
    task_bytes: int | None = None
    unknown: tuple[tuple[str, str], ...] = ()

    def totals(self) -> dict[str, float]:
        """Return the seconds of each kind of phase, in the order in which they first came."""
        totals: dict[str, float] = {}
        for phase in self.phases:
            totals[phase.name] = totals.get(phase.name, 0.0) + phase.duration_s
        return totals
