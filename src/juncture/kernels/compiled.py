"""How kernels are compiled: one signature each, at the first call, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, TypeVar, cast

import numba
from numba import types

__all__ = [
    "boolean",
    "compiled",
    "float64_table",
    "float64_table_in",
    "inlined",
    "int32s",
    "int32s_in",
    "int64",
    "int64_cube",
    "int64_cube_in",
    "int64_table",
    "int64_table_in",
    "int64s",
    "int64s_in",
    "uint8s",
    "uint8s_in",
    "uint32s",
    "uint32s_in",
    "uint64s",
    "uint64s_in",
    "void",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def _array(item: types.Type, dimensions: int = 1, *, readonly: bool = False) -> types.Array:
    return types.Array(item, dimensions, "C", readonly=readonly)


boolean, int64, void = types.boolean, types.int64, types.void

# A writable array passes where a read-only one is asked for, so Arrow's buffers and our own share one compilation.
int32s, int32s_in = _array(types.int32), _array(types.int32, readonly=True)
int64s, int64s_in = _array(types.int64), _array(types.int64, readonly=True)
uint8s, uint8s_in = _array(types.uint8), _array(types.uint8, readonly=True)
uint32s, uint32s_in = _array(types.uint32), _array(types.uint32, readonly=True)
uint64s, uint64s_in = _array(types.uint64), _array(types.uint64, readonly=True)
float64_table, float64_table_in = _array(types.float64, 2), _array(types.float64, 2, readonly=True)
int64_table, int64_table_in = _array(types.int64, 2), _array(types.int64, 2, readonly=True)
int64_cube, int64_cube_in = _array(types.int64, 3), _array(types.int64, 3, readonly=True)


def compiled(signature: Any) -> Callable[[Function], Function]:
    """Compile a function for one signature when it is first called.

    Nothing is compiled at import, so that a join pays only for the kernels that it runs.
    """

    def decorate(function: Function) -> Function:
        lock = Lock()
        machine_code: Callable[..., Any] | None = None

        @wraps(function)
        def call(*arguments: Any) -> Any:
            nonlocal machine_code
            if machine_code is None:
                with lock:
                    if machine_code is None:
                        machine_code = _compile(function, signature)
            return machine_code(*arguments)

        return cast(Function, call)

    return decorate


def inlined(function: Function) -> Function:
    """Make a function callable from kernels; it is compiled into each of them."""
    return cast(Function, numba.njit(nogil=True)(function))


def _compile(function: Callable[..., Any], signature: Any) -> Callable[..., Any]:
    try:
        return cast(Callable[..., Any], numba.njit(signature, nogil=True, cache=True)(function))
    except (RuntimeError, OSError) as error:
        # No folder can be written, as on some cluster nodes, or the disk is full: compile for this process alone.
        if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
            raise
        return cast(Callable[..., Any], numba.njit(signature, nogil=True)(function))
