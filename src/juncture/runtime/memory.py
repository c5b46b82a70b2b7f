"""Memory budgets of joins, and memory use of the process."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

LEAST_MEMORY_BYTES = 64 * 10**6
"""The minimum budget: some batches of each side, and of the output."""

MEMORY_BYTES = 4 << 30
"""The default budget of a join on disk."""

UNDER_WAY_SHARE = 1 / 4
"""The share of memory for rows that are streamed past buffered rows."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with a container's memory limit, of control groups version 2 and 1."""

_SHARE = 0.6
_ROUNDING = 1e-9


class MemoryBudget:
    """The memory of a join or a part of it, and the shares that its parts have reserved.

    Reservations are a plan: each part limits what it buffers at once. Allocations are not counted.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._shares: dict[str, float] = {}
        self._held_bytes = 0

    def reserve(self, name: str, share: float) -> MemoryBudget:
        """Reserve a share of the whole under a name, in place of the last one, for work that may divide it further."""
        taken = sum(self._shares.values()) - self._shares.get(name, 0.0) + share
        assert taken <= 1 + _ROUNDING, f"{name} requests more than is left: {self._shares}"
        self._shares[name] = share
        return MemoryBudget(max(1, int(self.total_bytes * share)))

    def hold(self, size_bytes: int) -> bool:
        """Count bytes as used if they fit, and return whether they do."""
        if self._held_bytes + size_bytes > self.total_bytes:
            return False
        self._held_bytes += size_bytes
        return True

    def release(self) -> None:
        """Release all reservations, before the next phase of the work."""
        self._shares.clear()


def pooled_array(length: int, data_type: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array without values, in memory of Arrow's allocator, which reuses pages.

    NumPy has the system clear each page of a large array, which takes as long as a pass of a kernel over it.
    """
    item = np.dtype(data_type)
    return np.frombuffer(pa.allocate_buffer(length * item.itemsize), item)


def release_unused() -> None:
    """Return freed memory to the system: of the C library, and of Arrow's allocator for this thread."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return glibc's function that returns freed memory, or None."""
    if sys.platform != "linux":
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


@cache
def memory_limit_bytes() -> int:
    """Return the memory of this machine, or the limit of its container at the first call."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        # Without a limit, the file contains "max".
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def default_budget_bytes() -> int:
    """Return the default memory limit of a join, which keeps memory for other programs."""
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
    # Includes the parent's memory at the time of the fork.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
