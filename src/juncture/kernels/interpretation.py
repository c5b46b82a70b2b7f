"""Kernels run by the Python interpreter: for a few values, this is faster than loading or compiling machine code.

The results are those of machine code: Numba computes with 64 bits, and integers wrap around when they overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

_WORDS = (np.int64, np.uint64)


class _Values(npt.NDArray[Any]):
    """An array whose items are read as 64-bit integers, and cut off to its width when they are stored."""

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        return np.int64(item) if isinstance(item, np.integer) and not isinstance(item, _WORDS) else item

    def __setitem__(self, index: Any, item: Any) -> None:
        super().__setitem__(index, item.astype(self.dtype) if isinstance(item, np.integer) else item)


def interpret(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a kernel's function, without compiling it or the functions that it calls."""
    wide = [each.view(_Values) if isinstance(each, np.ndarray) else _wide(each) for each in arguments]
    with np.errstate(all="ignore"):
        result = _interpreted(function)(*wide)
    return result.item() if isinstance(result, np.generic) else result


def _wide(argument: Any) -> Any:
    return argument if isinstance(argument, bool) else np.int64(argument)


@cache
def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    return _copied(function, {})


def _copied(function: Callable[..., Any], copies: dict[Callable[..., Any], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a copy of a function that calls Python functions in place of compiled ones and instructions."""
    if function in copies:
        return copies[function]
    assert isinstance(function, FunctionType)
    names = dict(function.__globals__)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copies[function] = copy
    for name in function.__code__.co_names:
        python_function = getattr(names.get(name), "py_func", None)
        if python_function is not None:
            names[name] = _copied(python_function, copies)
    return copy
