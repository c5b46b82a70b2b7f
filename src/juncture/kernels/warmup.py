"""All kernels, compiled ahead of the joins that will run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from time import perf_counter

from juncture import kernels
from juncture.kernels.compiled import Kernel


@dataclass(frozen=True)
class Warmup:
    """What it took to have all kernels there.

    Attributes
    ----------
    kernels
        How many there are.
    compiled
        How many of them had to be compiled.
    folders
        Where they are kept; none if no folder can be written.
    seconds
        How long it took.
    """

    kernels: int
    compiled: int
    folders: tuple[str, ...]
    seconds: float


def all_kernels() -> Iterator[Kernel]:
    """Yield each kernel that a join may run."""
    for module in iter_modules(kernels.__path__, f"{kernels.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Kernel) and value.__module__ == module.name:
                yield value


def warm_up(report: Callable[[int, int], None] | None = None) -> Warmup:
    """Compile all kernels that are not there yet.

    Parameters
    ----------
    report
        Called with how many kernels are done, and how many there are.
    """
    start, found = perf_counter(), list(all_kernels())
    compilations = []
    for done, kernel in enumerate(found):
        if report is not None:
            report(done, len(found))
        compilations.append(kernel.compile())
    folders = {each.folder for each in compilations if each.folder is not None}
    new = sum(each.is_new for each in compilations)
    return Warmup(len(found), new, tuple(sorted(folders)), perf_counter() - start)
