"""Faults that are injected into what a follower calls: each call of a source, a state, a store or a sink is a stage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from juncture.errors import StateError

__all__ = ["STAGES", "Failing", "Faults", "counted", "summed"]

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
        "store.stored_rows",
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
            if self.plan and self.plan[0] == (name, "before"):
                self.plan.pop(0)
                raise StateError(f"on purpose, before {name}")
            result = call(*arguments, **named)
            if self.plan and self.plan[0] == (name, "after"):
                self.plan.pop(0)
                raise KeyboardInterrupt(f"on purpose, after {name}")
            return result

        return called


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
