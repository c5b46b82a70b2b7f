"""Views that forget rows: the answer stays that of DuckDB over all rows in time, and the stored rows stay few."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, SchemaError, SpecError, StateError
from support.state import ON_DISK, view_in
from support.viewing import database, rounded, rows_of, tabled

SCHEMA = pa.schema({"k": pa.int32(), "n": pa.int64(), "ts": pa.timestamp("us"), "day": pa.date32(), "x": pa.int64()})
NAMES = pa.schema({"k": pa.int32(), "name": pa.string()})
START = datetime(2024, 1, 1)

BOUNDED = {
    "groups by a rising key": "SELECT n // 7 AS w, count(*), sum(x), max(x), count(DISTINCT x) FROM l GROUP BY ALL",
    "groups of time": """
        SELECT time_bucket(INTERVAL '20 seconds', ts) AS w, k, min(x), median(x) FROM l GROUP BY ALL
        HAVING count(*) > 1""",
    "distinct times of two sources": "SELECT DISTINCT k, ts FROM l UNION SELECT k, ts FROM r",
    "equal numbers": "SELECT l.k, l.n, r.x FROM l JOIN r ON l.n = r.n AND l.k = r.k",
    "equal numbers of three": """
        SELECT a.k, b.x, r.x AS y FROM l a JOIN r b ON a.n = b.n AND a.k = b.k JOIN r ON r.n = b.n""",
    "an interval": "SELECT l.k, l.n, r.n AS m FROM l JOIN r ON l.k = r.k AND r.n BETWEEN l.n - 4 AND l.n + 3",
    "an interval of time without a key": """
        SELECT l.x, r.x AS y FROM l JOIN r ON l.ts < r.ts + INTERVAL '4 seconds' AND r.ts <= l.ts""",
    "an outer interval": """
        SELECT l.k, l.n, r.n AS m, r.x FROM l FULL JOIN r ON l.k = r.k AND l.n - 4 <= r.n AND l.n >= r.n""",
    "groups of an interval of time": """
        SELECT time_bucket(INTERVAL '20 seconds', r.ts) AS w, count(*) FROM l
        JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL '4 seconds' AND l.ts + INTERVAL '3 seconds'
        GROUP BY ALL""",
    "groups of an outer interval": """
        SELECT l.n // 10 AS w, count(r.x), count(*) FROM l
        LEFT JOIN r ON l.k = r.k AND r.n >= l.n AND r.n <= l.n + 5 GROUP BY ALL""",
    "an interval of groups": """
        WITH g AS (SELECT n // 5 AS w, sum(x) AS s FROM l GROUP BY ALL),
             h AS (SELECT n // 5 AS w, sum(x) AS s FROM r GROUP BY ALL)
        SELECT g.w, g.s, h.s AS t FROM g LEFT JOIN h ON h.w BETWEEN g.w - 1 AND g.w""",
    "rows with and without a match": """
        SELECT k, n, EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.n = l.n) AS e FROM l
        WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.n = l.n + 1)""",
    "names that do not change": "SELECT s.name, l.n // 10 AS w, count(*) FROM l JOIN s ON l.k = s.k GROUP BY ALL",
    "first rows of windows": """
        SELECT k, n, x FROM l QUALIFY row_number() OVER (PARTITION BY n // 10 ORDER BY x DESC, k, n, day) <= 2""",
    "shares of days": "SELECT n, x, sum(x) OVER (PARTITION BY day) AS s FROM l",
    "windows of padded rows": """
        SELECT l.k, r.x, count(*) OVER (PARTITION BY l.n // 10) AS c FROM l LEFT JOIN r ON l.n = r.n AND l.k = r.k""",
    "as-of joins within a day": """
        SELECT l.k, l.n, r.n AS m FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.day = r.day AND l.n >= r.n""",
    "the last rows": "SELECT n, x FROM l ORDER BY n DESC, x, k, day LIMIT 3",
    "the first rows": "SELECT n, x FROM l ORDER BY n, x, k, day LIMIT 5 OFFSET 2",
    "the greatest rows": "SELECT x, n FROM l WHERE k > 0 ORDER BY x DESC, n, k, day LIMIT 6",
    "the rows of the greatest groups": """
        SELECT n // 10 AS w, count(*) AS c FROM l GROUP BY ALL ORDER BY c DESC, w LIMIT 1""",
    "as-of joins": "SELECT l.k, l.n, r.n AS m FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.n >= r.n",
    "strict as-of joins": "SELECT l.k, l.n, r.n AS m FROM l ASOF JOIN r ON l.k = r.k AND l.n > r.n",
    "as-of joins by an earlier time without a key": """
        SELECT l.k, l.ts, r.ts AS m FROM l ASOF JOIN r ON l.ts >= r.ts + INTERVAL '3 seconds'""",
}
GROWING = {
    "later rows": "SELECT l.k, l.n, r.n AS m FROM l ASOF JOIN r ON l.k = r.k AND l.n <= r.n",
    "a total": "SELECT count(*), max(n), sum(x) FROM l",
    "keys alone": "SELECT l.n, r.x FROM l JOIN r ON l.k = r.k WHERE r.x = 1",
    "all but the last rows": "SELECT n, x FROM l ORDER BY n DESC, x, k, day OFFSET 3",
    "a falling key": "SELECT 100 - n AS m, count(*) FROM l GROUP BY ALL",
    "a negative key": "SELECT -n AS m, count(*) FROM l GROUP BY ALL",
    "a key with a sign": "SELECT +n AS m, count(*) FROM l GROUP BY ALL",
    "windows of unordered padded rows": """
        SELECT r.x, count(*) OVER (PARTITION BY r.n) AS c FROM l LEFT JOIN r ON l.n + 1 = r.n AND l.k = r.k""",
}
DELAYS = {"n": (5, 6), "ts": (timedelta(seconds=5), timedelta(seconds=6)), "day": (timedelta(), timedelta(days=1))}
"""The delay of each order, and within which further distance late rows are repaired."""
ORDERS = {"n": jn.Order("n", delay=5), "ts": jn.Order("ts", delay="5s"), "day": jn.Order("day")}


class Moving:
    """Two sources that move on, with rows out of order and some too late, beside the same tables in DuckDB."""

    def __init__(self, sql, seed, folder, order, *, repairs=False, **options):
        self.sql, self.folder, self.options = sql, folder, options
        self.column, self.repairs, (self.delay, self.repair_within) = order, repairs, DELAYS[order]
        self.place = SCHEMA.names.index(order)
        self.chance = random.Random(f"{sql} {seed}")
        self.tables = {"l": [], "r": []}
        self.names = [(k, f"name {k}") for k in range(3)]
        self.late, self.repaired, self.greatest = {"l": 0, "r": 0}, {"l": 0, "r": 0}, {}
        self.answer, self.now = Counter(), 0
        self.duckdb = database().cursor()
        self.view = self.opened()

    def opened(self):
        rule = {"late": "repair", "repair_within": self.repair_within} if self.repairs else {}
        source = jn.Source(SCHEMA, order=ORDERS[self.column], **rule)
        sources = {"l": source, "r": source, "s": jn.Source(NAMES, static=True)}
        if self.folder is None:
            view = jn.view(None, self.sql, sources=sources, **self.options)
        else:
            policy = replace(ON_DISK, initial_bytes=0)
            view = view_in(self.folder, self.sql, sources=sources, policy=policy, **self.options)
        for operator in view._graph.operators:
            for table in operator.tables.values():
                table.arrangement.rows_least = -(10**9)
        return view

    def row(self):
        n = max(0, self.now - self.chance.choice([0, 0, 1, 2, 3, 4, 5, 8, 12, 30]))
        ts = START + timedelta(seconds=n)
        return (self.chance.randint(0, 3), n, ts, date(2024, 1, 1 + n // 30), self.chance.randint(0, 4))

    def changes(self, name):
        rows, weights, before = self.tables[name], [], self.greatest.get(name)
        stored = list(rows)
        for _ in range(self.chance.randint(0, 12)):
            self.now += self.chance.randint(0, 1)
            recent = stored[-12:] if self.chance.random() < 0.7 else stored
            if recent and self.chance.random() < 0.4:
                old = self.chance.choice(recent)
                stored.remove(old)
                weights.append((old, -1))
                if self.chance.random() < 0.5:
                    weights.append(((*old[:4], old[4] + 1), 1))
            else:
                weights.append((self.row(), 1))
        for row, weight in weights:
            value = row[self.place]
            if before is not None and value < before - self.delay:
                if not self.repairs or value < before - self.delay - self.repair_within:
                    self.late[name] += 1
                    continue
                self.repaired[name] += 1
            rows.append(row) if weight > 0 else rows.remove(row)
            if weight > 0:
                self.greatest[name] = max(value, self.greatest.get(name, value))
        table = tabled([row for row, _ in weights], SCHEMA)
        return table.append_column("_weight", pa.array([weight for _, weight in weights], pa.int64()))

    def step(self):
        changes = {name: self.changes(name) for name in self.tables}
        if not self.view.epoch:
            changes["s"] = tabled(self.names, NAMES)
        is_loaded = self.folder is not None and not self.view.epoch
        output = self.view.populate(**changes) if is_loaded else self.view.apply(**changes)
        for batch in output:
            for *row, weight in rows_of(batch):
                self.answer[rounded(tuple(row))] += weight
        expected = Counter(map(rounded, self.expected()))
        assert +self.answer == expected, f"missing {expected - self.answer}, surplus {+self.answer - expected}"
        assert all(count >= 0 for count in self.answer.values())
        read = [name for name in self.tables if name in self.view._graph.scans]
        assert {name: self.view.late[name] for name in read} == {name: self.late[name] for name in read}
        repaired = {name: self.repaired[name] for name in read} if self.repairs else {}
        assert {name: self.view.repaired[name] for name in read if self.repairs} == repaired
        result = Counter(rounded(row) for batch in self.view.result().to_batches() for row in rows_of(batch))
        assert result <= expected if self.options else result == expected
        if self.folder is not None and self.chance.random() < 0.2:
            self.view.close()
            self.view = self.opened()

    def expected(self):
        for name, rows in self.tables.items():
            self.duckdb.register(name, tabled(rows, SCHEMA))
        self.duckdb.register("s", tabled(self.names, NAMES))
        return self.duckdb.execute(self.sql).fetchall()

    def most_stored(self):
        """Return the most rows of a table of an operator that forgets rows."""
        operators = [each for each in self.view._graph.operators if "forgets" in each.retention]
        return max(sum(run.living_rows for run in [*table.arrangement.memory, *table.stored])
                   for each in operators for table in each.tables.values())  # fmt: skip


@pytest.mark.parametrize(
    ("name", "where"), [*((name, "disk") for name in BOUNDED), *((name, "memory") for name in list(BOUNDED)[::4])]
)
def test_stored_rows_stay_few(name, where, tmp_path):
    order = "day" if "day" in name else "ts" if "time" in name else "n"
    moving = Moving(BOUNDED[name], 1, tmp_path / "state" if where == "disk" else None, order)
    for _ in range(16):
        moving.step()
    assert "grows" not in moving.view.explain()
    moving.view.apply()
    assert moving.most_stored() < max(map(len, moving.tables.values())) // 2
    moving.view.close()


@pytest.mark.parametrize("name", list(BOUNDED)[1::2])
def test_late_rows_are_repaired(name, tmp_path):
    order = "day" if "day" in name else "ts" if "time" in name else "n"
    moving = Moving(BOUNDED[name], 4, tmp_path / "state" if len(name) % 2 else None, order, repairs=True)
    for _ in range(16):
        moving.step()
    assert sum(moving.repaired.values())
    moving.view.apply()
    assert moving.most_stored() < 2 * max(map(len, moving.tables.values())) // 3
    moving.view.close()


@pytest.mark.parametrize("name", GROWING)
def test_rows_that_may_be_needed_are_kept(name):
    moving = Moving(GROWING[name], 2, None, "n")
    for _ in range(12):
        moving.step()
    assert "grows: " in moving.view.explain()


@pytest.mark.parametrize("name", ["groups by a rising key", "an outer interval", "first rows of windows"])
def test_a_result_without_final_rows(name, tmp_path):
    moving = Moving(BOUNDED[name], 3, tmp_path / "state", "n", final_rows="forget")
    for _ in range(20):
        moving.step()
    assert moving.view.result().num_rows < moving.answer.total() // 2
    assert "keeps all rows of the result" not in moving.view.explain()


def numbers(*values, weight=1):
    table = tabled([(1, n, None, None, 1) for n in values], SCHEMA)
    return table.append_column("_weight", pa.array([weight] * len(values), pa.int64()))


def counted(
    folder=None, delay=2, sql="SELECT n // 10 AS w, count(*) AS c FROM l GROUP BY ALL", final_rows="keep", **rule
):
    sources = {"l": jn.Source(SCHEMA, order=jn.Order("n", delay=delay), **rule)}
    return jn.view(folder, sql, sources=sources, final_rows=final_rows)


def test_late_changes_are_counted(tmp_path):
    view = counted(tmp_path / "state")
    assert view.late == {"l": 0}
    view.apply(l=numbers(20, 3))
    assert view.late == {"l": 0}, "rows of one epoch are not late"
    view.apply(l=numbers(17, 18))
    view.apply(l=numbers(3, weight=-1))
    view.close()
    with counted(tmp_path / "state") as view:
        assert view.late == {"l": 2}
        view.apply(l=numbers(17))
        assert view.late == {"l": 3}
        assert sorted(view.result().to_pylist(), key=str) == [{"w": 0, "c": 1}, {"w": 1, "c": 1}, {"w": 2, "c": 1}]
    with pytest.raises(StateError, match="another view"):
        counted(tmp_path / "state", delay=3)


def test_late_changes_are_errors():
    view = counted(late="error")
    view.apply(l=numbers(20))
    with pytest.raises(DataError, match="changes of source 'l' are late: 'n' is 17, but the frontier is 18"):
        view.apply(l=numbers(30, 17))
    view.apply(l=numbers(18))
    assert view.epoch == 2
    with pytest.raises(DataError, match="null or NaN in their order 'n'"):
        view.apply(l=numbers(None))
    assert view.epoch == 2


def test_late_changes_are_repaired_within_a_distance(tmp_path):
    rule = {"late": "repair", "repair_within": 5}
    view = counted(tmp_path / "state", final_rows="forget", **rule)
    view.apply(l=numbers(20, 29))
    changes = view.apply(l=numbers(26, 22, 21))
    assert [row["c"] for batch in changes for row in batch.to_pylist() if row["_weight"] > 0] == [4]
    assert (view.repaired, view.late) == ({"l": 2}, {"l": 1})
    view.apply(l=numbers(22, 21, 20, weight=-1))
    assert (view.repaired, view.late) == ({"l": 3}, {"l": 3})
    view.close()
    with counted(tmp_path / "state", final_rows="forget", **rule) as view:
        assert (view.repaired, view.late) == ({"l": 3}, {"l": 3})
        assert view.result().to_pylist() == [{"w": 2, "c": 3}]
    with pytest.raises(StateError, match="another view"):
        counted(tmp_path / "state", final_rows="forget", late="repair", repair_within=6)


@pytest.mark.parametrize(
    ("data_type", "values", "delay", "late"),
    [
        (pa.float64(), [1.5, 9.0, 6.9, 7.0], 2.0, 1),
        (pa.decimal128(9, 2), [Decimal(each) for each in (1, 9, 6, 7)], 2, 1),
        (pa.date32(), [date(2024, 1, each) for each in (1, 9, 6, 7)], "2d", 1),
        (pa.timestamp("ns", "UTC"), [datetime(2024, 1, 1, 0, 0, each) for each in (1, 9, 6, 7)], "2s", 1),
        (pa.uint16(), [0, 1, 2, 1], 3, 0),
        (pa.int8(), [-127, -126, -128], 5, 0),
    ],
)
def test_types_of_orders(data_type, values, delay, late):
    schema = pa.schema({"o": data_type})
    sources = {"l": jn.Source(schema, order=jn.Order("O", delay=delay))}
    view = jn.view(None, "SELECT DISTINCT o FROM l", sources=sources)
    for value in values:
        view.apply(l=pa.table({"o": pa.array([value], data_type)}))
    assert view.late == {"l": late}
    with pytest.raises(DataError, match="null or NaN"):
        view.apply(l=pa.table({"o": pa.array([None], data_type)}))


def test_what_operators_forget():
    rows = counted(sql="SELECT k, n + 1 AS m FROM l WHERE x > 0").explain().splitlines()
    assert rows[-2].strip() == "forgets rows when n < frontier of l"
    groups = counted().explain()
    assert "forgets rows when int_divide(n, 10) < int_divide(frontier of l, 10)" in groups
    assert "keeps all rows of the result" in groups
    source = jn.Source(SCHEMA, order=jn.Order("ts", delay="1m"))
    sql = "SELECT l.x FROM l JOIN r ON r.ts BETWEEN l.ts - INTERVAL 5 SECOND AND l.ts"
    join = jn.view(None, sql, sources={"l": source, "r": SCHEMA}).explain()
    assert "left: grows: any row can be needed by future changes of r" in join
    join = jn.view(None, sql, sources={"l": source, "r": source}).explain()
    assert "left: forgets rows when ts < frontier of l and ts < frontier of r; " in join
    assert "right: forgets rows when ts < frontier of r and ts < (frontier of l - to_seconds(5))" in join
    assert "forgets" not in jn.view(None, sql, sources={"l": SCHEMA, "r": SCHEMA}).explain()
    asof = jn.view(None, GROWING["later rows"], sources=dict.fromkeys("lr", source)).explain()
    assert "left: grows: any row can be needed by future changes of l, r; right: grows" in asof
    sources = dict.fromkeys("lr", jn.Source(SCHEMA, order=jn.Order("n")))
    asof = jn.view(None, GROWING["later rows"], sources=sources).explain()
    assert "right: forgets rows when n < frontier of l and n < frontier of r, except the last one of each key" in asof
    rows = "forgets rows when n < frontier of l, except the first 7"
    assert rows in jn.view(None, BOUNDED["the first rows"], sources=sources).explain()
    twice = f"({BOUNDED['the first rows']}) UNION ALL ({BOUNDED['the last rows']})"
    assert "grows: any row can be needed by top" in jn.view(None, twice, sources=sources).explain()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"order": "n"}, SpecError, "order='n' .str. is not an order"),
        ({"order": jn.Order("n", descending=True)}, SpecError, "cannot be combined with descending=True"),
        ({"order": jn.Order("n"), "static": True}, SpecError, "cannot be combined with static=True"),
        ({"order": jn.Order("m")}, SpecError, "order 'm' of source 'l' is not one of its columns"),
        ({"order": jn.Order("t")}, SchemaError, "'t' of source 'l' has type string"),
        ({"order": jn.Order("n", delay="5s")}, SpecError, "delay"),
        ({"order": jn.Order("n"), "late": "never"}, SpecError, "late"),
        ({"order": jn.Order("n"), "late": "repair"}, SpecError, "late='repair' and repair_within=None do not fit"),
        ({"order": jn.Order("n"), "repair_within": 5}, SpecError, "late='count' and repair_within=5 do not fit"),
        ({"late": "repair", "repair_within": 5}, SpecError, "late='repair' needs an order"),
        ({"order": jn.Order("n"), "late": "repair", "repair_within": -1}, SpecError, "repair_within=-1 is negative"),
        ({"order": jn.Order("n"), "late": "repair", "repair_within": "1h"}, SpecError, "repair_within"),
        ({"order": jn.Order("n"), "late": "repair", "repair_within": 1e400}, SpecError, "repair_within"),
    ],
)
def test_bad_orders(arguments, error, message):
    with pytest.raises(error, match=message):
        jn.view(
            None, "SELECT k FROM l", sources={"l": jn.Source(SCHEMA.append(pa.field("t", pa.string())), **arguments)}
        )


def test_a_view_that_forgets_is_not_replaced():
    view = counted()
    view.apply(l=numbers(1))
    for call in (view.replace, view.explain):
        with pytest.raises(PlanError, match="may have forgotten rows of source 'l'"):
            call("SELECT count(*) AS c FROM l")
