"""How much memory a join may hold, and how much the process has held."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa

LEAST_MEMORY_BYTES = 64 * 10**6
"""The smallest budget that there is work to be done in: some batches of each side, and of the output."""

MEMORY_BYTES = 4 << 30
"""How much a join on disk may hold unless the caller says otherwise."""

UNDER_WAY_SHARE = 1 / 4
"""What rows that stream past others, which are held in memory, may take of it."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's limit stands, by version of its control groups."""

_SHARE = 0.6
_ROUNDING = 1e-9


class MemoryBudget:
    """How much a join, or a part of it, may hold, and what its parts have reserved of that.

    Reservations are a plan, which the parts keep to by what they hold at once; they are not counted by the byte.

    Parameters
    ----------
    total_bytes
        How much there is.

    Examples
    --------
    >>> budget = MemoryBudget(1_000)
    >>> held = budget.reserve("left rows", 1 / 2)
    >>> held.total_bytes, budget.reserved
    (500, {'left rows': 500})
    >>> budget.release()
    >>> budget.reserved
    {}
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._parts: dict[str, MemoryBudget] = {}
        self._shares: dict[str, float] = {}
        self._held_bytes = 0

    @property
    def reserved(self) -> dict[str, int]:
        """How many bytes each part has reserved, by what it holds."""
        return {name: part.total_bytes for name, part in self._parts.items()}

    def reserve(self, name: str, share: float) -> MemoryBudget:
        """Take a share of the whole for a part of the work, which may divide it further.

        Work that is done again takes its reservation again, under the same name.
        """
        taken = sum(other for held, other in self._shares.items() if held != name) + share
        assert taken <= 1 + _ROUNDING, f"{name} requests more than is left: {self._shares}"
        self._shares[name] = share
        self._parts[name] = part = MemoryBudget(max(1, int(self.total_bytes * share)))
        return part

    def hold(self, size_bytes: int) -> bool:
        """Count bytes that are held from now on, and return whether they fit; those that do not are not counted."""
        if self._held_bytes + size_bytes > self.total_bytes:
            return False
        self._held_bytes += size_bytes
        return True

    def release(self) -> None:
        """Give back all that was reserved: what comes next is another part of the work."""
        self._parts.clear()
        self._shares.clear()


def release_unused() -> None:
    """Give back to the system what allocators keep of blocks that were let go; of Arrow's own, what this thread did."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return the C library's own way to do so, which GNU's has."""
    if sys.platform != "linux":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


def memory_limit_bytes() -> int:
    """Return the memory of this machine, or what a container allows of it."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        # Without a limit there stands "max".
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def default_budget_bytes() -> int:
    """Return the default memory limit of a join, which leaves room for other programs."""
    return int(memory_limit_bytes() * _SHARE)


def peak_memory_bytes() -> int:
    """Return the greatest resident memory of this process since it started."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        status = ""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    # Counts what the parent held when it started this process, too.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
