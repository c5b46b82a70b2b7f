"""How much memory a join may hold, and how much the process has held."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

__all__ = ["LEAST_MEMORY_BYTES", "MEMORY_BYTES", "default_budget_bytes", "memory_limit_bytes", "peak_memory_bytes"]

LEAST_MEMORY_BYTES = 64 * 10**6
"""The smallest budget that there is work to be done in: some batches of each side, and of the output."""

MEMORY_BYTES = 4 << 30
"""How much a join on disk may hold unless the caller says otherwise."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's limit stands, by version of its control groups."""

_SHARE = 0.6


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
    """Return what a join may hold unless it is told: others live in this memory too."""
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
