"""Joins, views and what follows them under random faults: after errors and kills no row is lost or doubled.

They go on in place, or are opened again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from incremental.test_properties import HOWS, LEFT, RIGHT, SPECS, pool
from incremental.test_retries import Followed
from juncture.errors import DataError, JunctureError, StateError
from juncture.incremental import join as joins
from juncture.incremental import view as views
from juncture.local.resources import resources_here
from support import changing, viewing
from support.cases import Case, read_cases
from support.faults import ON_PURPOSE, Failing, Faults, KilledError, RandomFaults
from support.state import SMALL_STATE


class Survivor:
    """A maintained query that goes on after faults: in place where it can, or else opened again.

    Parameters
    ----------
    folder
        Of its state.
    faults
        What fails.
    opened
        Opens it in a folder, whose store is passed through a function.
    """

    def __init__(self, folder: Path, faults: RandomFaults, opened: Callable[[Path, Faults], Any]) -> None:
        self.folder = folder
        self._faults = faults
        self._opened = opened
        self.kept: Any = None
        self.open()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)

    def open(self) -> None:
        """Open it; this fails at times."""
        while self.kept is None:
            self._faults.arm(self.folder)
            try:
                self.kept = self._opened(self.folder, self._faults)
            except (StateError, KeyboardInterrupt, KilledError) as error:
                self._survive(error)
        self._faults.disarm()

    def reopen(self) -> None:
        self.kept.close()
        self.kept = None
        self.open()

    def apply(self, **changes: Any) -> list[pa.RecordBatch]:
        return self._retried("apply", changes, lambda: self.kept.last())

    def populate(self, **changes: Any) -> list[pa.RecordBatch]:
        return self._retried("populate", changes, self._inserts)

    def _inserts(self) -> list[pa.RecordBatch]:
        result = self.kept.result()
        weights = pa.array([1] * result.num_rows, pa.int64())
        return pa.table([*result.columns, weights], schema=self.kept.schema).to_batches()

    def _retried(self, method: str, changes: dict[str, Any], last: Callable[[], Any]) -> list[pa.RecordBatch]:
        """Have an epoch applied, however often it takes; return its result, or what the state has as its result."""
        epoch = self.kept.epoch
        while True:
            self._faults.arm(self.folder)
            try:
                return getattr(self.kept, method)(**changes)
            except (StateError, KeyboardInterrupt, KilledError) as error:
                self._survive(error)
            finally:
                self._faults.disarm()
            if self.kept.epoch > epoch:
                assert self.kept.epoch == epoch + 1
                return last()

    def _survive(self, error: BaseException) -> None:
        self._faults.disarm()
        assert ON_PURPOSE in str(error) or (self._faults.survivor is not None and "cannot be" in str(error)), error
        survivor, self._faults.survivor = self._faults.survivor, None
        self.folder = self.folder if survivor is None else survivor
        if self.kept is None:
            return
        try:
            self.kept.check_open()
        except JunctureError:
            survivor = self.folder
        if survivor is not None:
            self.reopen()


class FaultyChanges(changing.Changing):
    """A join of two tables of which random rows come and go, under random faults."""

    def opened(self) -> Any:
        def opened(folder: Path, faults: Faults) -> jn.ChangeJoin:
            setup = joins.ChangeSetup(self.spec, self.left.schema, self.right.schema, **self.arguments)
            store = joins.store_in(folder, setup, SMALL_STATE)
            return joins.ChangeJoin(setup, resources_here(None), lambda *given: Failing("store", store(*given), faults))

        return Survivor(self.folder, RandomFaults(self.chance), opened)

    def reopen(self) -> None:
        self.join.reopen()


class FaultyView(viewing.Viewed):
    """A view of tables of which random rows come and go, under random faults."""

    view: Any = None

    def opened(self) -> Any:
        def opened(folder: Path, faults: Faults) -> jn.View:
            setup = views.ViewSetup(self.query, {name: jn.Source(schema) for name, schema in viewing.SCHEMAS.items()})
            store = views.store_in(folder, setup, SMALL_STATE)
            return views.View(setup, lambda *given: Failing("store", store(*given), faults))

        folder = self.folder if self.view is None else self.view.folder
        return Survivor(folder, RandomFaults(self.chance), opened)

    def fail(self, changes: dict[str, pa.Table]) -> None:
        """Leave errors to the faults."""


@settings(max_examples=max(1, settings.default.max_examples // 4))
@given(spec=st.sampled_from(SPECS), how=st.sampled_from(HOWS), seed=st.integers(0, 2**32 - 1))
def test_changes(spec, how, seed, tmp_path_factory):
    chance = random.Random(seed)
    tables = [pool(schema, chance, chance.choice([6, 20]), chance.choice([4, 12])) for schema in (LEFT, RIGHT)]
    folder = tmp_path_factory.mktemp("state") / "0"
    changing.check(FaultyChanges(replace(spec, how=how), *tables, chance, epochs=6, folder=folder))


CASES = [
    case
    for kind in ("asof", "range", "overlap", "where", "equi")
    for case in read_cases(kind)
    # Sums of floats depend on the order of rows.
    if case.resolved and not getattr(case.spec, "agg", None)
]


UNSUPPORTED = {"JN-ON-UNSUPPORTED", "JN-TIES-ORDER", "JN-KEY-CONVERSION"}
"""Errors of cases that changing tables refuse."""


@pytest.mark.one_in(60)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_files(case: Case, tmp_path):
    try:
        jn.changes(case.left.schema, case.right.schema, case.spec)
    except JunctureError as error:
        assert error.name in UNSUPPORTED
        return
    chance = random.Random(str(case))
    try:
        changing.check(FaultyChanges(case.spec, case.left, case.right, chance, epochs=4, folder=tmp_path / "0"))
    except DataError as error:
        # A code of changing tables has 64 bits.
        assert error.name == "JN-VALUE-RANGE"


VIEWS = {
    "join": "SELECT a.x, b.y, a.t FROM a JOIN b ON a.k = b.k WHERE b.y > 1",
    "full join": "SELECT a.x, b.y, a.k FROM a FULL JOIN b ON a.k = b.k",
    "left inequality": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x > b.y",
    "union": "SELECT a.x, c.z FROM a JOIN c ON a.k = c.k UNION ALL SELECT b.k, b.y FROM b",
    "group": "SELECT k, count(*) n, count(x) c, sum(x) s, avg(x) v, min(x) lo, max(x) hi, sum(d) e FROM a GROUP BY k",
    "distinct values": "SELECT t, count(DISTINCT x) n, sum(DISTINCT x) s FROM a GROUP BY t",
    "group of a join": "SELECT b.y, count(*) n, max(a.x) hi FROM a JOIN b ON a.k = b.k GROUP BY b.y",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 12))])
@pytest.mark.parametrize("query", VIEWS.values(), ids=VIEWS)
def test_views(query, seed, tmp_path):
    viewing.check(FaultyView(query, seed, tmp_path / "0", epochs=4))


class Restarted:
    """A follower under random faults of its source, state and sinks. After a kill, another one goes on with the files.

    Parameters
    ----------
    folder
        The first folder, with a number for a name.
    kind
        A kind of `incremental.test_retries`.
    """

    def __init__(self, folder: Path, kind: str, chance: random.Random) -> None:
        self._chance = chance
        self._faults = RandomFaults(chance)
        self.followed = Followed(folder, kind, "files", has_folder=True, faults=self._faults)

    def catch_up(self) -> None:
        """Follow until nothing is left, however often it takes."""
        if self._chance.random() < 0.2:
            self.followed.close()
        self._faults.arm(self.followed.folder)
        while True:
            try:
                self.followed.catch_up()
            except KilledError:
                self._go_on()
            else:
                break
        self._faults.disarm()

    def _go_on(self) -> None:
        """Follow the copy of the folder as it was when the process ended."""
        before, survivor = self.followed, self._faults.survivor
        assert survivor is not None
        before.close()
        self.followed = Followed(survivor, before.kind, before.sink, has_folder=True, faults=self._faults)
        self.followed.there, self.followed.files = before.there, before.files
        self._faults.survivor = None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["join", "view", "pipeline", "pipeline of two sinks"])
def test_followers(kind, seed, tmp_path, request):
    restarted = Restarted(tmp_path / "0", kind, random.Random(f"{kind} {seed}"))
    try:
        for _ in range(60 if request.config.getoption("--all") else 12):
            restarted.followed.change()
            restarted.catch_up()
            followed = restarted.followed
            assert followed.written() == followed.expected()
            if kind == "pipeline of two sinks":
                assert followed.written("once") == followed.expected(is_once=True)
    finally:
        restarted.followed.close()
