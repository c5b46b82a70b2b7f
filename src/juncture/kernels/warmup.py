"""Compilation of all kernels ahead of the first join."""

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
    """The numbers of kernels and of newly compiled ones, the cache folders (none if none is writable), and the time."""

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
    """Compile all kernels that are not cached, with some processes besides this one.

    With ``processes=1`` this process compiles and has the kernels loaded then. ``report`` is called with the numbers of
    finished and of all kernels.
    """
    start, kernels = perf_counter(), list(all_kernels())
    compilations: list[Compilation] = []
    if report is not None:
        report(0, len(kernels))
    for done in _compilations(kernels, processes):
        compilations += done
        if report is not None:
            report(len(compilations), len(kernels))
    folders = {each.folder for each in compilations if each.folder is not None}
    new = sum(each.is_new for each in compilations)
    return Warmup(len(kernels), new, tuple(sorted(folders)), perf_counter() - start)


def _compilations(kernels: Iterable[Kernel], processes: int) -> Iterator[list[Compilation]]:
    if processes == 1:
        yield from ([kernel.compile()] for kernel in kernels)
        return
    # One process per module, since its kernels share inlined functions.
    modules = {
        name: [kernel.__name__ for kernel in group] for name, group in groupby(kernels, attrgetter("__module__"))
    }
    # A forked process would inherit locks that this process's threads have acquired.
    with ProcessPoolExecutor(min(processes, max(1, len(modules))), get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_compiled, *each) for each in modules.items()]):
            yield future.result()


def _compiled(module: str, names: list[str]) -> list[Compilation]:
    return [getattr(import_module(module), name).compile() for name in names]
