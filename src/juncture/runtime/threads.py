"""Threads for compiled loops and Arrow's readers, which release the interpreter lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Event, Lock
from typing import Any, Self, TypeVar

import pyarrow as pa

from juncture.runtime.memory import release_unused

Item = TypeVar("Item")
Result = TypeVar("Result")

_END: Any = object()

_ROOM_BYTES = 64 << 20  # memory per thread above which freed memory is not returned after each task


@dataclass(frozen=True)
class Sizes:
    """The numbers of rows by which work is divided. Small ones let small tables take the paths of large ones."""

    slice_rows: int = 1 << 18  # at most in a part of a table, or pairs of a task
    task_rows: int = 1 << 16  # at least for another thread
    cache_rows: int = 1 << 14  # whose codes fit in the cache of a core
    block_rows: int = 1 << 12  # that are excluded together, or read at least


SIZES = Sizes()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def slices(length: int, most: int, *, least: int = 1) -> list[tuple[int, int]]:
    """Split a length into at most `most` nearly equal slices of at least `least`: 10 by 3 into 0-3, 3-6 and 6-10."""
    if most <= 1 or length < 2 * least:
        return [(0, length)]
    count = max(1, min(most, length // max(least, 1)))
    edges = [length * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def grouped(items: Iterable[Item], most: int, size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Group consecutive items that have a maximum size together; an item that is larger is alone."""
    group, size = list[Item](), 0
    for item in items:
        item_bytes = size_of(item)
        if group and size + item_bytes > most:
            yield group
            group, size = [], 0
        group.append(item)
        size += item_bytes
    if group:
        yield group


class Threads:
    """A thread pool for one join, and the sizes of its tasks. A single thread is the caller's.

    `room_bytes` limits rows in flight (None: no limit). `is_frugal` is set if memory is short for this many threads.
    """

    def __init__(self, count: int | None = None, sizes: Sizes = SIZES) -> None:
        self.count = available_cores() if count is None else max(1, count)
        self.sizes = sizes
        self.room_bytes: int | None = None
        self.is_frugal = False
        self._pool = ThreadPoolExecutor(self.count, "juncture") if self.count > 1 else None

    @property
    def at_once(self) -> int:
        """The maximum number of running and waiting tasks."""
        return self.count if self.is_frugal else 2 * self.count

    def within(self, room_bytes: int) -> Threads:
        """Return the pool for work with `room_bytes` of rows in flight; if short, tasks return Arrow's free memory."""
        threads = Threads(1, self.sizes)
        threads.count, threads._pool = self.count, self._pool
        threads.room_bytes = room_bytes
        threads.is_frugal = room_bytes < self.count * _ROOM_BYTES
        # Memory of previous work, such as planning.
        threads.release_unused()
        return threads

    def slices(self, length: int, per_thread: int = 1, *, rows_each: int = 1) -> list[tuple[int, int]]:
        """Split a length into some slices per thread, of items that stand for some rows each."""
        return slices(length, per_thread * self.count, least=self.sizes.task_rows // rows_each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads, once the running tasks have ended."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def release_unused(self) -> None:
        """Return freed memory to the system, if memory is short."""
        if self.is_frugal:
            release_unused()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in order, made a few items ahead; an error is raised here once the running tasks have ended."""
        function = _releasing(function) if self.is_frugal else function
        # One item is not worth waking another thread.
        if self._pool is None or (isinstance(items, Sized) and len(items) <= 1):
            yield from map(function, items)
            return
        running: deque[Future[Result]] = deque()
        try:
            for item in items:
                running.append(self._pool.submit(function, item))
                if len(running) >= self.at_once:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for task in running:
                task.cancel()
            for task in running:
                if not task.cancelled():
                    task.exception()

    def ahead(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield items; a thread computes each while the previous one is in use."""
        if self._pool is None:
            yield from items
            return
        make = partial(next, iter(items), _END)
        running = self._pool.submit(make)
        try:
            while (item := running.result()) is not _END:
                running = self._pool.submit(make)
                yield item
        finally:
            if not running.cancel():
                running.exception()

    def mix(self, function: Callable[[Item], Result], sources: Iterable[Iterator[Item]]) -> Iterator[Result]:
        """Yield the results in any order, from as many item sources at once as threads. Errors are as those of `map`.

        Items of one source are produced one after the other, each by the thread that processes it.
        """
        opening, waiting = iter(sources), deque[Iterator[Item]]()
        lock, in_use, has_ended = Lock(), 0, Event()

        def task(_: bool) -> list[Result]:
            nonlocal in_use
            with lock:
                source = waiting.popleft() if waiting else next(opening, None)
                if source is None:
                    if in_use == 0:
                        has_ended.set()
                    return []
                in_use += 1
            item = next(source, _END)
            results = [] if item is _END else [function(item)]
            with lock:
                in_use -= 1
                if results:
                    waiting.append(source)
            return results

        for results in self.map(task, iter(has_ended.is_set, True)):
            yield from results

    def run(self, function: Callable[[Item], object], items: Sequence[Item]) -> None:
        """Call a function with each item, and wait for all."""
        if len(items) == 1 and not self.is_frugal:
            function(items[0])
            return
        for _ in self.map(function, items):
            pass


def _releasing(function: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return a task that returns unused memory at its end, which only the same thread can do."""

    def task(item: Item) -> Result:
        try:
            return function(item)
        finally:
            pa.default_memory_pool().release_unused()

    return task
