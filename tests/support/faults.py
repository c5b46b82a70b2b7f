"""Faults that are injected into what a follower calls: each call of a source, a state, a store or a sink is a stage."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from juncture.errors import StateError

__all__ = ["ON_PURPOSE", "STAGES", "Failing", "Faults", "KilledError", "RandomFaults", "counted", "summed"]

ON_PURPOSE = "on purpose"
"""How the messages of injected errors begin."""

_FAULTY_CALLS = 12
"""About as many calls of stages as an epoch makes."""

STAGES = frozenset(
    {
        "source.snapshot",
        "source.start",
        "source.next",
        "source.acknowledge",
        "kept.check_open",
        "kept.populate",
        "kept.apply",
        "kept.table",
        "kept.last",
        "kept.result",
        "store.writer",
        "store.write",
        "store.add",
        "store.take_in",
        "store.commit",
        "store.checkpoint",
        "store.replace",
        "store.position",
        "store.last",
        "store.runs",
        "store.log",
        "store.rows",
        "store.notes",
        "store.epochs",
        "store.blocks",
        "store.states",
        "store.keep_only",
        "sink.open",
        "sink.write",
        "on_read",
        "on_epoch",
    }
)
"""All stages of following. A call that a follower comes to make and that is not among them fails the tests."""


class Faults:
    """Which stages fail next, and which ones have been reached.

    Attributes
    ----------
    plan
        The faults to come, each at the next call of its stage: a call fails either *before* it does anything, by an
        error, or *after* it has done its work, by an interrupt of which its caller cannot tell what has been done.
    reached
        The stages that have been called.
    """

    def __init__(self) -> None:
        self.plan: list[tuple[str, str]] = []
        self.reached: list[str] = []

    def stage(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that fails where the plan says so."""

        def called(*arguments: Any, **named: Any) -> Any:
            assert name in STAGES, f"{name} is a new stage: add it to STAGES"
            if threading.current_thread() is not threading.main_thread():
                # Interrupts come to the main thread, and what merges runs may read at any time.
                return call(*arguments, **named)
            self.reached.append(name)
            self.meet(name, "before")
            result = call(*arguments, **named)
            self.meet(name, "after")
            return result

        return called

    def meet(self, name: str, when: str) -> None:
        """Raise the error of a stage if the plan says so."""
        if self.plan and self.plan[0] == (name, when):
            self.plan.pop(0)
            raise (
                StateError(f"{ON_PURPOSE}, before {name}")
                if when == "before"
                else KeyboardInterrupt(f"{ON_PURPOSE}, after {name}")
            )


class KilledError(BaseException):
    """Stands for the end of the process: only a copy of the folder as it was then may be used afterwards."""


class RandomFaults(Faults):
    """Faults at random calls: errors and interrupts, and as many kills."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._calls: int | None = None
        self.folder = Path()
        self.survivor: Path | None = None

    def arm(self, folder: Path) -> None:
        """Have one of the next calls fail, or none. ``folder`` has the state, and a number for a name."""
        self.folder = folder
        self._calls = self._chance.randint(1, 2 * _FAULTY_CALLS) if self._chance.random() < 0.5 else None

    def disarm(self) -> None:
        self._calls = None

    def meet(self, name: str, when: str) -> None:
        if self._calls is None:
            return
        self._calls -= 1
        if self._calls:
            return
        self._calls = None
        if self._chance.random() < 0.5:
            self.survivor = self.folder.with_name(str(int(self.folder.name) + 1))
            copy_folder(self.folder, self.survivor)
            raise KilledError(f"{ON_PURPOSE}, {when} {name}")
        error = self._chance.choice([StateError, KeyboardInterrupt])
        raise error(f"{ON_PURPOSE}, {when} {name}")


def copy_folder(folder: Path, copy: Path) -> None:
    """Copy the files of a folder as they are at one moment, although RocksDB may be writing in the background."""
    while True:
        shutil.rmtree(copy, ignore_errors=True)
        before = _sizes(folder)
        with suppress(shutil.Error, FileNotFoundError):
            shutil.copytree(folder, copy)
            if _sizes(folder) == before:
                return


def _sizes(folder: Path) -> dict[Path, int]:
    while True:
        with suppress(FileNotFoundError):
            return {path: path.stat().st_size for path in folder.rglob("*")}


class Failing:
    """Something each of whose methods is a stage.

    Parameters
    ----------
    name, of
        What it is called, and what it is.
    faults
        The faults.
    more
        Attributes that are other than those that it has.
    """

    def __init__(self, name: str, of: Any, faults: Faults, **more: Any) -> None:
        self._of = of
        for method in dir(type(of)):
            if not method.startswith("_") and method != "close":
                member = getattr(type(of), method)
                if callable(member):
                    setattr(self, method, faults.stage(f"{name}.{method}", getattr(of, method)))
        vars(self).update(more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def counted(batches: list[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """Return the rows of changes, and their weights."""
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            weight = row.pop("_weight")
            found[tuple(row.values())] += weight
    return found


def summed(epochs: Iterable[Counter[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
    """Return the rows that are there after some epochs."""
    found: Counter[tuple[Any, ...]] = Counter()
    for epoch in epochs:
        for row, weight in epoch.items():
            found[row] += weight
    assert all(weight >= 0 for weight in found.values())
    return +found
