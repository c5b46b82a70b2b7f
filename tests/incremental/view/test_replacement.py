"""A view whose query is replaced has the answer of DuckDB to the new one, and goes on from there."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from incremental.view.test_queries import QUERIES
from juncture.errors import DataError, JunctureError, PlanError, SpecError, StateError
from juncture.incremental.view import View, ViewSetup, store_in
from support.faults import ON_PURPOSE, Failing, Faults, KilledError, copy_folder
from support.state import SMALL_STATE, view_in
from support.viewing import SCHEMAS, Forgetful, Viewed, tabled


def states(text: str) -> dict[str, str]:
    """Return the state of each operator of a replacement, by its text."""
    lines = [line for line in text.splitlines()[1:] if " as [" not in line]
    return {re.sub(r"^[│├└─ ]*(\[\d\] )?", "", line[:72]).strip(): line[86:] for line in lines}


class Replaced(Viewed):
    """A view of random tables, whose query is replaced now and then."""

    def replace(self, query: str) -> None:
        """Replace the query, with the tables that the view asks for."""
        names = [name for name, state in states(self.view.explain(query)).items() if state == "pass its table"]
        before = self.view.schema
        changes = self.view.replace(query, **{name: tabled(self.there[name], SCHEMAS[name]) for name in names})
        self.query = query
        if self.view.schema != before:
            self.answer.clear()
        self.receive(changes)


class ForgetfulReplaced(Replaced, Forgetful):
    pass


class ReplacedOnDisk(Replaced):
    def opened(self) -> jn.View:
        sources = {name: jn.Source(schema, static=name in self.static) for name, schema in SCHEMAS.items()}
        return view_in(self.folder, self.query, sources=sources, policy=SMALL_STATE)


def replaced_in_turn(queries: list[str], seed: int, folder: Path, static: tuple[str, ...] = ()) -> None:
    """Check views in memory or a folder, whose query is each of some queries in turn."""
    kind, where = [(Replaced, None), (ForgetfulReplaced, None), (Replaced, folder), (ReplacedOnDisk, folder)][seed % 4]
    viewed = kind(queries[0], seed, where, static)
    viewed.step()
    viewed.step()
    for query in queries[1:]:
        viewed.replace(query)
        viewed.step()
        viewed.step()
    viewed.view.close()


@settings(max_examples=max(4, settings.default.max_examples // 2))
@given(queries=st.lists(st.sampled_from(list(QUERIES.values())), min_size=2, max_size=3), seed=st.integers(0, 1 << 32))
def test_any_query_replaces_any_other(queries, seed, tmp_path_factory):
    replaced_in_turn(queries, seed, tmp_path_factory.mktemp("state") / "view")


def relation(chance: random.Random, depth: int) -> str:
    """Return a random query with columns ``k`` and ``v``, which shares parts with others."""
    if depth and chance.random() < 0.75:
        rows = relation(chance, depth - 1)
        value = chance.choice(["sum(v)", "max(v)", "count(*)", "count(DISTINCT v)"])
        number = chance.randint(1, 3)
        return chance.choice(
            [
                f"SELECT k, {value} AS v FROM ({rows}) GROUP BY k",
                f"SELECT k, {value} AS v FROM ({rows}) GROUP BY k HAVING count(*) > {number}",
                f"SELECT DISTINCT k, v FROM ({rows})",
                f"SELECT k, v FROM ({rows}) WHERE v > {number}",
                f"SELECT k, v FROM ({rows}) UNION ALL ({relation(chance, depth - 1)})",
                f"SELECT k, v FROM ({rows}) ORDER BY v, k LIMIT {number}",
                f"SELECT k, sum(v) OVER (PARTITION BY k) AS v FROM ({rows})",
                f"SELECT p.k, q.v FROM ({rows}) p JOIN ({relation(chance, depth - 1)}) q ON p.k = q.k",
                f"SELECT p.k, q.v FROM ({rows}) p LEFT JOIN ({relation(chance, depth - 1)}) q ON p.k = q.k",
                f"SELECT p.k, p.v FROM ({rows}) p JOIN ({rows}) q ON p.v = q.k",
                f"SELECT k, {value} AS v FROM ({rows}), (SELECT z FROM c) WHERE z = v GROUP BY k",
            ]
        )
    return chance.choice(
        [
            "SELECT k, x AS v FROM a",
            "SELECT k, y AS v FROM b",
            "SELECT k, z AS v FROM c",
            "SELECT a.k, y AS v FROM a JOIN b ON a.k = b.k",
            "SELECT a.k, x + y AS v FROM a JOIN b ON a.k = b.k",
            "SELECT b.k, z AS v FROM a JOIN b ON a.k = b.k JOIN c ON b.y = c.k",
            "SELECT a.k, z AS v FROM a LEFT JOIN c ON a.k = c.k AND x > z",
            "SELECT c.k, y AS v FROM b JOIN c ON b.k = c.k",
        ]
    )


@settings(max_examples=settings.default.max_examples)
@given(seed=st.integers(0, 1 << 32))
def test_related_queries_replace_each_other(seed, tmp_path_factory):
    chance = random.Random(seed)
    queries = [relation(chance, 2) for _ in range(3)]
    static = chance.choice([(), (), ("c",), ("b", "c")])
    replaced_in_turn(queries, seed, tmp_path_factory.mktemp("state") / "view", static)


GROUPS = "SELECT k, sum(x) AS v FROM a GROUP BY k"
JOIN = "FROM a JOIN b ON a.k = b.k"
CASES = {
    "another condition on groups": (
        f"{GROUPS} HAVING sum(x) > 2",
        f"{GROUPS} HAVING sum(x) > 4",
        {"group by k: sum(x)": "kept", "rows of a": "kept", "the answer": "computed"},
    ),
    "another aggregate": (
        f"SELECT y, sum(x) AS v {JOIN} GROUP BY y",
        f"SELECT y, max(x) AS v {JOIN} GROUP BY y",
        {"a": "kept", "b": "kept", "join on k = k": "computed", "group by y: max(x)": "computed"},
    ),
    "first rows": (
        f"SELECT y, sum(x) AS v {JOIN} GROUP BY y",
        f"SELECT y, sum(x) AS v {JOIN} GROUP BY y ORDER BY v LIMIT 2",
        {"group by y: sum(x)": "kept", "arranged by k": "kept", "arranged by": "copied", "top 2": "computed"},
    ),
    "another table": (
        f"SELECT x, y {JOIN}",
        f"SELECT x, y, z {JOIN} JOIN c ON a.k = c.k",
        {"a": "kept", "b": "kept", "c": "pass its table", "join on k = k AND k = k": "computed"},
    ),
    "another column": ("SELECT k FROM a", "SELECT k, x FROM a", {"a": "pass its table"}),
    "fewer columns": ("SELECT k, x FROM a", "SELECT k FROM a", {"a": "kept", "the answer": "computed"}),
    "an outer join": (
        "SELECT x, y FROM a LEFT JOIN b ON a.k = b.k",
        "SELECT x, y FROM a LEFT JOIN b ON a.k = b.k WHERE y IS NULL",
        {"left join on (k = k)": "kept", "filter is_null(y)": "computed"},
    ),
    "the same query": (GROUPS, f"WITH g AS ({GROUPS}) SELECT * FROM g", {"the answer": "kept"}),
}


@pytest.mark.parametrize("where", ["memory", "folder"])
@pytest.mark.parametrize(("one", "two", "expected"), CASES.values(), ids=CASES)
def test_what_is_kept(one, two, expected, where, tmp_path):
    viewed = Replaced(one, 3, None if where == "memory" else tmp_path / "state")
    viewed.step()
    viewed.step()
    found = states(viewed.view.explain(two))
    assert {name: found[name] for name in expected} == expected
    epoch, offset = viewed.view.epoch, viewed.view.offset
    viewed.replace(two)
    assert (viewed.view.epoch, viewed.view.offset) == (epoch + 1, offset)
    viewed.step()
    viewed.replace(one)
    viewed.step()
    viewed.view.close()


def test_answers_that_are_compared_in_pieces():
    """Rows of several batches, each of which is there several times, are read in the order of their hashes."""
    schema = pa.schema({"n": pa.int64()})
    numbers = [*range(20_000), *range(20_000, 0, -1), *[7] * 40_000]
    with jn.view(None, "SELECT n FROM t", sources={"t": schema}) as view:
        for first in range(0, 80_000, 20_000):
            view.apply(t=pa.table({"n": numbers[first : first + 20_000]}, schema))
        (changes,) = view.replace("SELECT n % 19999 AS n FROM t WHERE n <> 9")
        rows = Counter(dict(zip(*(changes[name].to_pylist() for name in ("n", "_weight")), strict=True)))
        assert len(rows) == changes.num_rows
        # 0 replaces 19,999, which is there twice, and 1 replaces 20,000.
        assert rows == {9: -2, 19_999: -2, 0: 2, 20_000: -1, 1: 1}
        assert view.result().num_rows == len(numbers) - 2


def test_changes_of_other_columns_are_the_new_result():
    viewed = Replaced(GROUPS, 1, None)
    viewed.step()
    changes = viewed.view.replace("SELECT k, x FROM a")
    assert all(weight > 0 for batch in changes for weight in batch["_weight"].to_pylist())
    assert viewed.view.schema.names == ["k", "x", "_weight"]
    assert pa.Table.from_batches(viewed.view.last()).num_rows == pa.Table.from_batches(changes).num_rows


def test_wrong_arguments():
    sources = {name: jn.Source(schema) for name, schema in SCHEMAS.items()}
    with jn.view(None, GROUPS, sources=sources) as view:
        with pytest.raises(PlanError, match="needs a view with rows"):
            view.replace("SELECT k FROM a")
        view.populate(a=tabled([], SCHEMAS["a"]))
        with pytest.raises(PlanError, match=r"reads columns of 'b', 'c' that the view does not .*sql, b=…, c=…\)"):
            view.replace("SELECT a.k FROM a, b, c WHERE a.k = b.k AND a.k = c.k")
        with pytest.raises(SpecError, match="Table 'a' is not needed"):
            view.replace("SELECT k FROM a", a=tabled([], SCHEMAS["a"]))
        with pytest.raises(SpecError, match="Source 'd' does not exist"):
            view.replace("SELECT k FROM a", d=tabled([], SCHEMAS["a"]))
        with pytest.raises(SpecError):
            view.replace("SELECT nothing FROM a")
        assert view.epoch == 1
    with pytest.raises(PlanError, match="closed"):
        view.replace(GROUPS)


@pytest.mark.parametrize("where", ["memory", "folder"])
def test_a_value_that_fails_leaves_the_old_query(where, tmp_path):
    viewed = Replaced("SELECT k, t FROM a", 5, None if where == "memory" else tmp_path / "state")
    viewed.step()
    viewed.there["a"].append((1, 2, "no number", None, None))
    viewed.view.apply(a=tabled(viewed.there["a"][-1:], SCHEMAS["a"]))
    viewed.answer[1, "no number"] += 1
    with pytest.raises(DataError, match="Could not convert string"):
        viewed.view.replace("SELECT k, CAST(t AS INTEGER) AS t FROM a")
    viewed.step()
    viewed.step()
    viewed.replace("SELECT k, t FROM a WHERE k > 1")
    viewed.step()
    viewed.view.close()


WRITES = {"store.writer", "store.write", "store.take_in", "store.keep_only", "store.checkpoint", "store.replace"}


class FaultAt(Faults):
    """A fault before or after one of the next writes: an error, an interrupt, or the end of the process."""

    def __init__(self, folder: Path, number: int, error: type[BaseException]) -> None:
        super().__init__()
        self.folder, self.number, self._error = folder, number, error
        self.is_armed = False

    def meet(self, name: str, when: str) -> None:
        if self.is_armed and name in WRITES:
            self.number -= 1
            if self.number == 0:
                self.is_armed = False
                if self._error is KilledError:
                    copy_folder(self.folder, self.folder.with_name("survivor"))
                raise self._error(f"{ON_PURPOSE}, {when} {name}")


OLD, NEW = (f"SELECT y, {value} AS v {JOIN} GROUP BY y" for value in ("sum(x)", "max(x)"))


def numbered(folder: Path, query: str, faults: Faults | None = None) -> View:
    setup = ViewSetup(query, {name: jn.Source(SCHEMAS[name]) for name in ("a", "b")})
    made: Callable[..., Any] = store_in(folder, setup, SMALL_STATE)
    return View(setup, made if faults is None else lambda *given: Failing("store", made(*given), faults))


def values(view: View) -> dict[int, int]:
    return {row["y"]: row["v"] for row in view.result().to_pylist()}


@pytest.mark.parametrize(("number", "error"), [(0, KilledError), (1, StateError), (2, KeyboardInterrupt)])
def test_a_fault_leaves_the_old_or_the_new_query(number, error, tmp_path, request):
    """Fail each write of a replacement in turn, until it makes fewer writes."""
    by = 1 if request.config.getoption("--all") else 6
    with numbered(tmp_path / "state", OLD) as view:
        view.populate(
            a=tabled([(k, x, None, None, None) for k in (1, 2) for x in (3, 4)], SCHEMAS["a"]),
            b=tabled([(1, 10), (2, 20)], SCHEMAS["b"]),
        )
    expected = {OLD: {10: 7, 20: 7}, NEW: {10: 4, 20: 4}}
    afterwards = {OLD: {10: 16, 20: 7}, NEW: {10: 9, 20: 4}}
    ends, faults = set(), None
    while faults is None or not faults.is_armed:
        number += by
        folder = shutil.copytree(tmp_path / "state", tmp_path / str(number) / "state")
        faults = FaultAt(folder, number, error)
        with numbered(folder, OLD, faults) as view:
            faults.is_armed = True
            query = NEW
            try:
                view.replace(NEW)
            except (StateError, KeyboardInterrupt, KilledError) as failed:
                assert ON_PURPOSE in str(failed)
                query = OLD
            with suppress(JunctureError):
                # The store has another query than the view if the fault came after the commit.
                view.check_open()
                assert values(view) == expected[query]
        if error is KilledError and not faults.is_armed:
            folder = folder.with_name("survivor")
        try:
            view = numbered(folder, OLD)
        except StateError as refused:
            assert "belongs to another view" in str(refused)
            query, view = NEW, numbered(folder, NEW)
        else:
            query = OLD
        with view:
            assert (values(view), view.epoch) == (expected[query], 1 if query == OLD else 2)
            view.apply(a=tabled([(1, 9, None, None, None)], SCHEMAS["a"]))
            assert values(view) == afterwards[query]
        ends.add(query)
    assert ends == {OLD, NEW}
    assert number > 10, number
