"""All kernels, compiled ahead of the joins that will run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from multiprocessing import get_context
from operator import attrgetter
from pkgutil import iter_modules
from time import perf_counter

from juncture import kernels
from juncture.kernels.compiled import Compilation, Kernel


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


def warm_up(report: Callable[[int, int], None] | None = None, processes: int = 1) -> Warmup:
    """Compile all kernels that are not there yet.

    Parameters
    ----------
    report
        Called with how many kernels are done, and how many there are.
    processes
        How many compile at once, beside this one; if 1, this one does alone, and has the kernels then.
    """
    start, found = perf_counter(), list(all_kernels())
    compilations: list[Compilation] = []
    if report is not None:
        report(0, len(found))
    for done in _compilations(found, processes):
        compilations += done
        if report is not None:
            report(len(compilations), len(found))
    folders = {each.folder for each in compilations if each.folder is not None}
    new = sum(each.is_new for each in compilations)
    return Warmup(len(found), new, tuple(sorted(folders)), perf_counter() - start)


def _compilations(found: Iterable[Kernel], processes: int) -> Iterator[list[Compilation]]:
    """Compile kernels, and yield how some of them came to be there."""
    if processes == 1:
        yield from ([kernel.compile()] for kernel in found)
        return
    # A module's go to one process, since they share functions that are compiled into each.
    modules = {
        name: [kernel.__name__ for kernel in kernels] for name, kernels in groupby(found, attrgetter("__module__"))
    }
    # A process that is forked would have this one's threads' locks, held.
    with ProcessPoolExecutor(min(processes, max(1, len(modules))), get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_compiled, *each) for each in modules.items()]):
            yield future.result()


def _compiled(module: str, names: list[str]) -> list[Compilation]:
    """Compile kernels of a module in this process."""
    return [getattr(import_module(module), name).compile() for name in names]
