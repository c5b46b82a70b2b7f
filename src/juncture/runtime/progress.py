"""The progress of a join: reported to a callback, and recorded as the time of each phase."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

_log = logging.getLogger(__name__)

Report = Callable[[str, int, int], None]
"""Called with a phase, its completed work, and its total work."""

Advance = Callable[[int, int], None]
"""Called with the completed and total work of one phase."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A time span in which a join did one thing.

    In-process: ``"inputs"`` (open them, and spool streams), ``"left"`` and ``"right"`` (process the rows of a side),
    ``"payload"`` (fetch columns of matched rows), ``"output"`` (return the last rows). On Spark: ``"stage 7"`` and so
    on, which may overlap, or ``"query"`` (all of them).
    """

    name: str
    start_s: float  # from the start of the join
    duration_s: float


class Progress:
    """Records phases from progress reports. Each report names the phase of the time since the previous one."""

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._began = time.perf_counter()
        self._starts: list[tuple[str, float]] = []
        self.seconds = 0.0

    def of(self, phase: str) -> Advance:
        """Return the progress callback of a phase."""
        return partial(self._advance, phase)

    def during(self, phase: str) -> _During:
        """Return a context in which a phase runs, which ends with it."""
        return _During(self, phase)

    def extend(self, phase: str) -> None:
        """Record that a phase took all time until now."""
        if not self._starts or self._starts[-1][0] != phase:
            self._starts.append((phase, self.seconds))
        self.seconds = time.perf_counter() - self._began

    @property
    def phases(self) -> list[Phase]:
        """The phases so far."""
        ends = [start_s for _, start_s in self._starts[1:]] + [self.seconds]
        return [
            Phase(name=name, start_s=start_s, duration_s=end_s - start_s)
            for (name, start_s), end_s in zip(self._starts, ends, strict=True)
        ]

    def _advance(self, phase: str, done: int, total: int) -> None:
        self.extend(phase)
        if self._report is not None:
            self._report(phase, done, total)


class _During:
    """The time of a block, as one phase. A class, since a generator takes a noticeable part of a small join."""

    def __init__(self, progress: Progress, phase: str) -> None:
        self._progress, self._phase = progress, phase
        self._began = time.perf_counter()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._progress.extend(self._phase)
        _log.debug("Phase %s took %.3f s", self._phase, time.perf_counter() - self._began)
