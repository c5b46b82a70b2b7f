"""How much memory a join may hold."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["default_budget_bytes", "memory_limit_bytes"]

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
