"""How kernels are compiled: one signature each, at the first call, without the interpreter's lock.

What is compiled is kept on disk, so that it is compiled once on a machine: beside the sources, where these cannot be
written in the user's folder for caches, or where ``NUMBA_CACHE_DIR`` says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar, cast

import numba
from numba import types

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)


def _array(item: types.Type, dimensions: int = 1, *, readonly: bool = True) -> types.Array:
    return types.Array(item, dimensions, "C", readonly=readonly)


# Read-only parameters also accept writable arrays, so Arrow's buffers and our own share one compilation. What
# kernels hand to the same inlined function is of one type in all of them, so that it is compiled once, too.
_ITEMS = {
    "Bytes": _array(types.uint8),
    "Codes": _array(types.int32),
    "FloatTable": _array(types.float64, 2),
    "Halves": _array(types.uint32),
    "Ints": _array(types.int64),
    "IntTable": _array(types.int64, 2),
    "IntCube": _array(types.int64, 3),
    "Words": _array(types.uint64),
}
_TYPES = {
    **_ITEMS,
    **{f"{name}Out": each.copy(readonly=False) for name, each in _ITEMS.items()},
    "bool": types.boolean,
    "int": types.int64,
    "None": types.void,
}
"""By the names that annotations have in `juncture.kernels.array_types`."""


def signature_of(function: Callable[..., Any]) -> Any:
    """Return the signature that a function's annotations, which are text, stand for."""
    *arguments, result = (_TYPES[name] for name in function.__annotations__.values())
    return result(*arguments)


@dataclass(frozen=True)
class Compilation:
    """How a kernel came to be there.

    Attributes
    ----------
    is_new
        Whether it had to be compiled, since no earlier process has left it on disk.
    folder
        Where it is kept; None if no folder can be written.
    """

    is_new: bool
    folder: str | None


class Kernel:
    """A function that is compiled when it is first called, by whichever thread comes first."""

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._machine_code: Callable[..., Any] | None = None
        self._compilation = Compilation(is_new=False, folder=None)
        self._lock = Lock()

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code."""
        return (self._machine_code or self._compiled())(*arguments)

    def compile(self) -> Compilation:
        """Compile the function, unless it has been, and return how it came to be there."""
        self._compiled()
        return self._compilation

    def _compiled(self) -> Callable[..., Any]:
        with self._lock:
            if self._machine_code is None:
                start = perf_counter()
                with _clock.running():
                    machine_code, self._compilation = _compile(self._function)
                self._report(perf_counter() - start)
                self._machine_code = machine_code
            return self._machine_code

    def _report(self, seconds: float) -> None:
        if self._compilation.is_new and self._compilation.folder is not None:
            _announcement.log()
        did = "Compiled" if self._compilation.is_new else "Loaded"
        module = self._function.__module__.rpartition(".")[-1]
        _log.debug("%s the kernel %s.%s in %.2f s", did, module, self._function.__qualname__, seconds)


def compile_seconds() -> float:
    """Return for how long kernels have been compiled or loaded in this process, by one thread or several."""
    return _clock.seconds


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, for the types that its annotations name.

    Nothing is compiled at import, so that a join pays only for the kernels that it runs.
    """
    return cast(Function, Kernel(function))


def inlined(function: Function) -> Function:
    """Make a function callable from kernels; it is compiled into each of them."""
    # Python never calls it, and what lets it would take as long to compile.
    return cast(Function, numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function))


def _compile(function: Callable[..., Any]) -> tuple[Callable[..., Any], Compilation]:
    signature = signature_of(function)
    try:
        machine_code = numba.njit(signature, nogil=True, no_cfunc_wrapper=True, cache=True)(function)
    except (RuntimeError, OSError) as error:
        # No folder can be written, as on some cluster nodes, or the disk is full: compile for this process alone.
        if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
            raise
        _lack_of_room.log(error)
        return numba.njit(signature, nogil=True, no_cfunc_wrapper=True)(function), Compilation(True, None)
    known = machine_code.stats
    return machine_code, Compilation(is_new=not known.cache_hits, folder=known.cache_path)


class _Clock:
    """Counts the time in which any thread does something."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._threads = 0
        self._since = 0.0
        self._lock = Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count while the block runs."""
        with self._lock:
            if self._threads == 0:
                self._since = perf_counter()
            self._threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1
                if self._threads == 0:
                    self.seconds += perf_counter() - self._since


class _OnceLogged:
    """A line that is logged once, whichever thread comes first."""

    def __init__(self, level: int, message: str) -> None:
        self._level = level
        self._message = message
        self._said = Lock()

    def log(self, *arguments: object) -> None:
        """Log it, unless it has been."""
        if self._said.acquire(blocking=False):
            _log.log(self._level, self._message, *arguments)


_clock = _Clock()
_announcement = _OnceLogged(
    logging.INFO,
    "Compiling kernels that no join on this machine has run before: it takes some seconds, once. `juncture warmup` "
    "does it ahead.",
)
_lack_of_room = _OnceLogged(
    logging.WARNING,
    "No folder can be written to keep compiled kernels in, so each process compiles them anew: set NUMBA_CACHE_DIR to "
    "one that can (%s).",
)
