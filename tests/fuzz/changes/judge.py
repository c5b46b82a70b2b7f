"""Whether the answer of a join of changing tables is the join of the tables as they are, after every epoch."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

import juncture as jn
from fuzz.changes.cases import SIDES, ChangeCase
from fuzz.compare import problem, rows_of
from fuzz.kind import RIGHT, Outcome, outcome_of
from juncture.errors import DataError
from juncture.planner.decision import Engine
from juncture.spec.resolved import Resolved
from support.kinds import defined_rows
from support.state import SMALL_STATE, changes_in
from support.tables import shown_type

__all__ = ["judge"]

LIMITS = ("64 bits", "64-bit code", "cannot be compared")
"""What errors of changing tables say of rows that tables may have."""


def judge(engine: Engine = "local") -> Callable[[ChangeCase, Path], Outcome]:
    """Return what judges cases."""
    return judged


def judged(case: ChangeCase, folder: Path) -> Outcome:
    """Run a case."""
    state = None if case.reopened is None else folder / "state"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder / "state", ignore_errors=True)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        try:
            followed = Followed(case, state)
        except Exception as error:
            return outcome_of(error)
        try:
            for epoch in range(len(case.left)):
                outcome = followed.step(epoch)
                if outcome is not None:
                    return outcome
        except Exception as error:
            return outcome_of(error)
        finally:
            followed.join.close()
    return RIGHT


class Followed:
    """A join of changing tables, and what the changes of its answer add up to."""

    def __init__(self, case: ChangeCase, state: Path | None) -> None:
        self._case, self._state, self._tables = case, state, case.tables()
        schemas = [table.pool.schema for table in self._tables.values()]
        self._resolved: Resolved = case.spec().resolve(*schemas)
        self._answer: Counter[tuple[str, ...]] = Counter()
        self.join = self._opened()

    def _opened(self) -> jn.ChangeJoin:
        left, right = (table.pool.schema for table in self._tables.values())
        if self._case.is_small and self._state is not None:
            return changes_in(left, right, self._case.spec(), state=self._state, policy=SMALL_STATE)
        return jn.changes(left, right, self._case.spec(), state=self._state)

    def step(self, epoch: int) -> Outcome | None:
        """Take an epoch, and return what is wrong then; None if nothing is."""
        case = self._case
        now = [table.after(range(epoch + 1)) for table in self._tables.values()]
        expected: pa.Table | DataError
        try:
            expected = defined_rows(case.spec(), *now)
        except DataError as error:
            expected = error
        take: Any = self.join.populate if case.populates and not epoch else self.join.apply
        try:
            given = list(take(**{side: self._tables[side].changes(epoch) for side in SIDES}, offset=epoch + 1))
        except DataError as error:
            if any(limit in " ".join(str(error).split()) for limit in LIMITS):
                return outcome_of(error)
            if isinstance(expected, pa.Table):
                return self._failed("an error", str(error))
            # Later epochs may remove what this one would have added.
            return self._difference(None) or RIGHT
        if not isinstance(expected, pa.Table):
            return self._failed("no error", f"It is due: {expected}")
        wrong = self._added(given, may_repeat=case.populates and not epoch)
        if case.reopened is not None and epoch in case.reopened:
            wrong = wrong or self._reopened(epoch, given if not (case.populates and not epoch) else None)
        found = problem(self._resolved, now[1], self.join.result(), expected, ordered=False, type_of=shown_type)
        if found:
            return self._failed(f"wrong {found[0]}", f"epoch {epoch}: {found[1]}")
        return wrong or self._difference(epoch)

    def _failed(self, what: str, detail: str) -> Outcome:
        return Outcome("failed", f"changes {self._case.join.kind}: {what}", detail)

    def _added(self, given: list[pa.RecordBatch], *, may_repeat: bool) -> Outcome | None:
        """Add changes to the answer."""
        found: Counter[tuple[str, ...]] = Counter()
        for row, weight in weighted(given):
            if not weight or (row in found and not may_repeat):
                return self._failed("changes that say nothing or twice the same", f"{row}: {weight}")
            found[row] += weight
        self._answer.update(found)
        return None

    def _reopened(self, epoch: int, given: list[pa.RecordBatch] | None) -> Outcome | None:
        """Close the join and open it again."""
        self.join.close()
        self.join = self._opened()
        if (self.join.epoch, self.join.offset) != (epoch + 1, epoch + 1):
            return self._failed("wrong epoch after it was opened again", f"{self.join.epoch}, {self.join.offset}")
        if given is not None and sorted(weighted(self.join.last())) != sorted(weighted(given)):
            return self._failed("wrong last changes", f"{weighted(self.join.last())}\nand were\n{weighted(given)}")
        return None

    def _difference(self, epoch: int | None) -> Outcome | None:
        """Return how the changes so far differ from the result."""
        rows = Counter(rows_of(self.join.result()))
        if self._answer == rows:
            return None
        surplus, missing = self._answer - rows, rows - self._answer
        what = "changes do not add up" if epoch is not None else "an epoch with an error is taken"
        return self._failed(what, f"epoch {epoch}: surplus {dict(surplus)}, missing {dict(missing)}")


def weighted(batches: list[pa.RecordBatch]) -> list[tuple[tuple[str, ...], int]]:
    """Return the rows of changes, written, with their weights."""
    found = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        found += zip(rows_of(table.drop_columns(["_weight"])), table["_weight"].to_pylist(), strict=True)
    return found
