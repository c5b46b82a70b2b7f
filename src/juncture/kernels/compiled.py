"""Compilation of kernels: one signature each, after their first calls, without the interpreter's lock.

Machine code is cached on disk, so that a machine compiles it once: beside the sources, or in the user's cache folder if
these are read-only, or in ``NUMBA_CACHE_DIR``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types

from juncture.kernels.interpretation import interpret

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

_ANNOUNCEMENT = (
    "Compiling kernels that no join on this machine has run before: it takes some seconds, once. `juncture warmup` "
    "does it ahead."
)
_LACK_OF_ROOM = (
    "No folder can be written to keep compiled kernels in, so each process compiles them anew: set NUMBA_CACHE_DIR to "
    "one that can (%s)."
)


def _array(item: types.Type, dimensions: int = 1, *, readonly: bool = True) -> types.Array:
    return types.Array(item, dimensions, "C", readonly=readonly)


# Read-only parameters also accept writable arrays, so Arrow's buffers and NumPy's share one compilation. All
# kernels pass the same types to an inlined function, so that it is compiled once, too.
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
"""Numba's types by the names of annotations in `juncture.kernels.array_types`."""


_INTERPRETED_VALUES = 1 << 15  # number of items above which kernels are compiled at once; a hash table has 20,000

# Python never calls these functions, and a wrapper for Python would take as long to compile.
_CALLED_BY_KERNELS = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def signature_of(function: Callable[..., Any]) -> Any:
    """Return the signature of a function's annotations, which are text."""
    *arguments, result = (_TYPES[name] for name in function.__annotations__.values())
    return result(*arguments)


@dataclass(frozen=True)
class Compilation:
    """The outcome of compiling a kernel: whether it was not in the cache, and the cache folder, if any is writable."""

    is_new: bool
    folder: str | None


class Kernel:
    """A function that is compiled when it is called, once for all threads, or loaded from the cache.

    Without machine code in the cache, few values are interpreted at first, for up to ``interpreter_s`` in total, so
    that the first joins of small tables on a machine do not wait for the compiler.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any], interpreter_s: float = 0.2) -> None:
        update_wrapper(self, function)
        self._function = function
        self._interpreter_s = interpreter_s
        self._machine_code: Callable[..., Any] | None = None
        self._compilation = Compilation(is_new=False, folder=None)

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code, or the interpreter."""
        if self._machine_code is not None:
            return self._machine_code(*arguments)
        values = sum(each.size for each in arguments if isinstance(each, np.ndarray))
        if self._interpreter_s <= 0 or values > _INTERPRETED_VALUES or self._is_cached:
            return self._compiled()(*arguments)
        start = perf_counter()
        result = self.interpret(*arguments)
        self._interpreter_s -= perf_counter() - start
        return result

    @cached_property
    def _is_cached(self) -> bool:
        """Whether the cache has machine code, perhaps of an earlier version of the function."""
        with suppress(RuntimeError, OSError):
            folder = Path(numba.njit(cache=True)(self._function).stats.cache_path)
            code = self._function.__code__
            return any(folder.glob(f"*.{code.co_name}-{code.co_firstlineno}.*.nbi"))
        return False

    def interpret(self, *arguments: Any) -> Any:
        """Call the interpreter."""
        return interpret(self._function, *arguments)

    def compile(self) -> Compilation:
        """Compile the function or load it from the cache once, and return the outcome."""
        self._compiled()
        return self._compilation

    def _compiled(self) -> Callable[..., Any]:
        with _compiler.lock:
            if self._machine_code is None:
                start = perf_counter()
                machine_code, self._compilation = _compile(self._function)
                seconds = perf_counter() - start
                _compiler.seconds += seconds
                self._report(seconds)
                self._machine_code = machine_code
            return self._machine_code

    def _report(self, seconds: float) -> None:
        if self._compilation.is_new and self._compilation.folder is not None:
            _compiler.log_once(logging.INFO, _ANNOUNCEMENT)
        did = "Compiled" if self._compilation.is_new else "Loaded"
        module = self._function.__module__.rpartition(".")[-1]
        _log.debug("%s the kernel %s.%s in %.2f s", did, module, self._function.__qualname__, seconds)


def compile_seconds() -> float:
    """Return the time in which any thread of this process compiled or loaded kernels."""
    return _compiler.seconds


def compiled(function: Function) -> Function:
    """Compile a function for its annotated types when it is called, so that joins compile only what they run."""
    return cast(Function, Kernel(function))


def inlined(function: Function) -> Function:
    """Make a function callable from kernels; it is compiled into each of them, and neither makes nor returns arrays."""
    # Without Numba's runtime (NRT), references to arrays are not counted, which takes up to ten nanoseconds a call.
    return cast(Function, numba.njit(**_CALLED_BY_KERNELS, _nrt=False)(function))


def subroutine(function: Function) -> Function:
    """Make a function callable from kernels that makes or returns arrays."""
    return cast(Function, numba.njit(**_CALLED_BY_KERNELS)(function))


def _compile(function: Callable[..., Any]) -> tuple[Callable[..., Any], Compilation]:
    signature = signature_of(function)
    try:
        machine_code = numba.njit(signature, nogil=True, no_cfunc_wrapper=True, cache=True)(function)
    except (RuntimeError, OSError) as error:
        # No writable folder, as on some cluster nodes, or a full disk: compile for this process only.
        if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
            raise
        _compiler.log_once(logging.WARNING, _LACK_OF_ROOM, error)
        return numba.njit(signature, nogil=True, no_cfunc_wrapper=True)(function), Compilation(True, None)
    statistics = machine_code.stats
    return machine_code, Compilation(is_new=not statistics.cache_hits, folder=statistics.cache_path)


class _Compiler:
    """What all compilations share: they run one at a time, as Numba has it, so that their seconds add up."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.seconds = 0.0
        self.logged = set[str]()

    def log_once(self, level: int, message: str, *arguments: object) -> None:
        """Log a line, unless this process has logged it before."""
        if message not in self.logged:
            self.logged.add(message)
            _log.log(level, message, *arguments)


_compiler = _Compiler()
