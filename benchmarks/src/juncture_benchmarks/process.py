"""Memory and processor time of a process and its descendants, read from ``/proc``.

Without ``/proc`` (macOS), only the peak of the process itself is known, and descendants count as zero.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from juncture.runtime.memory import peak_memory_bytes

_PROC = Path("/proc")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class _Stat:
    """A process as ``/proc/<pid>/stat`` describes it; its processor time includes children that it has waited for."""

    parent: int
    name: str
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a process tree used while it was watched.

    Attributes
    ----------
    cpu_s
        Processor time of all its processes together.
    peak_bytes
        The greatest resident memory of all its processes together. Pages that they share count in each.
    own_peak_bytes
        The greatest resident memory of the watched process alone, since it started.
    before_bytes
        The resident memory of the watched process when it began to be watched.
    java_peak_bytes, worker_peak_bytes
        The greatest resident memory of its Java processes together, and of its other descendants together; 0 where it
        has none.
    """

    cpu_s: float
    peak_bytes: int
    own_peak_bytes: int
    before_bytes: int
    java_peak_bytes: int
    worker_peak_bytes: int


def available_bytes() -> int:
    """Return the memory that new processes may take without swapping."""
    with contextlib.suppress(OSError):
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def tree_bytes(root: int) -> int:
    """Return the resident memory of a process and all its descendants."""
    return sum(_memory(pid, "VmRSS") for pid in _tree(root, _stats()))


def tree_cpu_s(root: int) -> float:
    """Return the seconds of CPU time of a process and all its descendants, ended ones that were waited for included."""
    stats = _stats()
    return sum(stats[pid].cpu_s for pid in _tree(root, stats))


def kill_tree(root: int) -> None:
    """Kill a process and all its descendants, those in process groups of their own too."""
    for pid in _tree(root, _stats()) or [root]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


class Watch:
    """Watches this process and its descendants for as long as the context lasts.

    A thread samples resident memory every 0.1 s, so that shorter spikes of descendants may be missed; the peak of this
    process is the kernel's own and exact.
    """

    def __init__(self) -> None:
        self._root = os.getpid()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)
        self._cpu_s = 0.0
        self._java_bytes = 0
        self._worker_bytes = 0
        self._total_bytes = 0
        self._before_bytes = 0

    def __enter__(self) -> Watch:
        self._cpu_s = self._tree_cpu_s()
        self._before_bytes = _memory(self._root, "VmRSS")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._sample()
        self._cpu_s = self._tree_cpu_s() - self._cpu_s

    def usage(self) -> Usage:
        """Return what was used; call it once the context is left."""
        own = peak_memory_bytes()
        return Usage(
            cpu_s=self._cpu_s,
            peak_bytes=max(own, self._total_bytes),
            own_peak_bytes=own,
            before_bytes=self._before_bytes,
            java_peak_bytes=self._java_bytes,
            worker_peak_bytes=self._worker_bytes,
        )

    def _sample_until_stopped(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        stats = _stats()
        own = java = workers = 0
        for pid in _tree(self._root, stats):
            memory = _memory(pid, "VmRSS")
            if pid == self._root:
                own = memory
            elif stats[pid].name == "java":
                java += memory
            else:
                workers += memory
        self._java_bytes = max(self._java_bytes, java)
        self._worker_bytes = max(self._worker_bytes, workers)
        self._total_bytes = max(self._total_bytes, own + java + workers)

    def _tree_cpu_s(self) -> float:
        return tree_cpu_s(self._root) or sum(os.times()[:4])


def _stats() -> dict[int, _Stat]:
    """Read all processes."""
    found = {}
    for entry in _PROC.glob("[0-9]*"):
        # A process may end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            head, _, tail = (entry / "stat").read_text().rpartition(")")
            fields = tail.split()
            cpu_s = sum(int(ticks) for ticks in fields[11:15]) * _TICK_S
            found[int(entry.name)] = _Stat(int(fields[1]), head.partition("(")[2], cpu_s)
    return found


def _tree(root: int, stats: dict[int, _Stat]) -> list[int]:
    """Return a process and its descendants, ancestors first; nothing if it has ended."""
    children = defaultdict(list)
    for pid, stat in stats.items():
        children[stat.parent].append(pid)
    tree = [root] if root in stats else []
    for pid in tree:
        tree.extend(children[pid])
    return tree


def _memory(pid: int, field: str) -> int:
    """Read one line of a process's status, in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0
