"""The smallest case that fails as a given one does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from fuzz.kind import Case

__all__ = ["fewer", "shrink"]


def shrink(
    case: Case, smaller: Callable[[Case], Iterator[Case]], fails: Callable[[Case], bool], *, seconds: float
) -> Case:
    """Make a case smaller for as long as it fails, and time is left.

    Parameters
    ----------
    case
        A case that fails.
    smaller
        Yields cases that are a little smaller, those first that are smaller by much.
    fails
        Tells whether another fails for the same reason.
    seconds
        How long to try.
    """
    until = time.monotonic() + seconds
    tried: set[str] = set()
    candidate: Case | None = case
    while candidate is not None:
        case, candidate = candidate, None
        for other in smaller(case):
            if time.monotonic() > until:
                return case
            if repr(other) not in tried:
                tried.add(repr(other))
                if fails(other):
                    candidate = other
                    break
    return case


def fewer(count: int) -> Iterator[list[int]]:
    """Yield which of some rows to keep: without a half, a quarter and so on, and at last without each one."""
    size = count
    while size:
        for start in range(0, count, size):
            yield [*range(start), *range(min(count, start + size), count)]
        size //= 2
