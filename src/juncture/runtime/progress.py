"""The progress of a join: reported to a callback, and recorded as the time of each phase."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

_log = logging.getLogger(__name__)

Report = Callable[[str, int, int], None]
"""Called with a phase, how much of it is done, and how much there is."""

Advance = Callable[[int, int], None]
"""Called with how much of one phase is done, and how much there is."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A span of time in which a join did one thing.

    Attributes
    ----------
    name
        What it did: ``"inputs"`` (open them, and keep a stream so that it can be read again), ``"left"`` and
        ``"right"`` (work through the rows of a side), ``"payload"`` (fetch columns of matched rows), ``"output"``
        (give out the last rows); on Spark ``"stage 7"`` and so on, which may run at once, or ``"query"`` (all of them).
    start_s
        When it began, in seconds from the start of the join.
    seconds
        How long it took.
    """

    name: str
    start_s: float
    seconds: float


class Progress:
    """Records phases from progress reports: each report names what the time since the last one was spent on.

    Parameters
    ----------
    report
        Progress callback, or None.

    Examples
    --------
    >>> told = []
    >>> progress = Progress(lambda *told_now: told.append(told_now))
    >>> advance = progress.of("left")
    >>> advance(5, 10)
    >>> told, [phase.name for phase in progress.phases]
    ([('left', 5, 10)], ['left'])
    """

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._began = time.perf_counter()
        self.seconds = 0.0
        self.phases: list[Phase] = []

    def of(self, phase: str) -> Advance:
        """Return what to call with how much of a phase is done, and how much there is."""
        return partial(self._advance, phase)

    @contextmanager
    def during(self, phase: str) -> Iterator[Advance]:
        """Yield the same for a block of code, whose end the phase lasts to."""
        began = time.perf_counter()
        try:
            yield self.of(phase)
        finally:
            self.extend(phase)
            _log.debug("Phase %s took %.3f s", phase, time.perf_counter() - began)

    def extend(self, phase: str) -> None:
        """Note that a phase has taken all time until now."""
        start_s, self.seconds = self.seconds, time.perf_counter() - self._began
        if self.phases and self.phases[-1].name == phase:
            start_s = self.phases.pop().start_s
        self.phases.append(Phase(name=phase, start_s=start_s, seconds=self.seconds - start_s))

    def _advance(self, phase: str, done: int, total: int) -> None:
        self.extend(phase)
        if self._report is not None:
            self._report(phase, done, total)
