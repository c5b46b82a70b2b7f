"""First rows that are loaded in stages: the results of one kind of query below another, compared with DuckDB."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

import juncture as jn
from incremental.view.test_queries import QUERIES
from support.state import SMALL_STATE, view_in
from support.viewing import SCHEMAS, Forgetful, check, forgetful

BELOW = {
    "table": "SELECT k, x AS v FROM a",
    "join": "SELECT * FROM j",
    "self join": "SELECT one.k, two.y AS v FROM b one, b two WHERE one.y = two.k",
    "union": "SELECT k, x AS v FROM a UNION ALL SELECT k, y FROM b UNION ALL SELECT x, k FROM a",
    "union of joins": """
        SELECT a.k, y AS v FROM a, b WHERE a.k = b.k AND x > 1
        UNION ALL SELECT b.k, x FROM a, b WHERE x = y AND f > 0 UNION ALL SELECT a.k, y FROM a, b WHERE a.x = b.k""",
    "union of one join": "SELECT * FROM j UNION ALL SELECT v, k FROM j UNION ALL SELECT k, k FROM j WHERE v > 2",
    "distinct union": "SELECT k, v FROM j UNION SELECT k, y FROM b",
    "intersect": "SELECT k, v FROM j INTERSECT SELECT k, y FROM b",
    "intersect all": "SELECT k, x AS v FROM a INTERSECT ALL SELECT k, v FROM j",
    "except": "SELECT k, x AS v FROM a EXCEPT SELECT k, v FROM j",
    "except all": "SELECT k, v FROM j EXCEPT ALL SELECT k, x FROM a",
    "groups": "SELECT k, count(*) AS v FROM j GROUP BY k",
    "grouping sets": "SELECT k, max(v) AS v FROM j GROUP BY GROUPING SETS ((k), (v), ())",
    "table used twice": "SELECT one.k, two.v FROM g one, g two WHERE one.k = two.v",
    "window": "SELECT k, rank() OVER (PARTITION BY v ORDER BY k) AS v FROM j",
    "window without partitions": "SELECT k, count(*) OVER (ORDER BY v, k) % 5 AS v FROM j",
    "semi": "SELECT k, v FROM j WHERE EXISTS (SELECT 1 FROM a WHERE a.k = j.k AND x <> v)",
    "anti": "SELECT k, v FROM j WHERE NOT EXISTS (SELECT 1 FROM g WHERE g.v = j.k)",
    "not in": "SELECT k, v FROM j WHERE v NOT IN (SELECT x FROM a WHERE a.k = j.k)",
    "mark": "SELECT k, CASE WHEN v IN (SELECT v FROM g) THEN 1 ELSE 2 END AS v FROM j",
    "single": "SELECT k, (SELECT max(x) FROM a WHERE a.k = j.k) AS v FROM j",
    "scalar": "SELECT k, (SELECT sum(x) % 5 FROM a) AS v FROM j",
    "top": "SELECT k, v FROM j ORDER BY v DESC NULLS LAST, k LIMIT 5",
    "constants": "SELECT * FROM (VALUES (1, 2), (2, 3), (3, 3)) AS v(k, v)",
    "left join": "SELECT a.k, v FROM a LEFT JOIN j ON a.x = j.v AND j.k > 1",
    "full join": "SELECT b.k, g.v FROM b FULL JOIN g ON b.y = g.v",
    "inequality": "SELECT a.k, g.v FROM a, g WHERE a.x < g.v",
    "as-of": "SELECT a.k, g.v FROM a ASOF LEFT JOIN g ON a.x = g.k AND a.k >= g.v",
}
"""Queries that return columns k and v of tables a and b, of their join j, and of groups g."""

ABOVE = {
    "join by two keys": "SELECT l.k, l.v, one.z, two.k AS other FROM l, c one, c two WHERE l.k = one.k AND l.v = two.z",
    "join by one key": "SELECT l.v, one.z, two.k FROM l, c one, c two WHERE l.k = one.k AND l.k = two.z AND l.v < 4",
    "self join": "SELECT one.k, two.k AS other, z FROM l one, l two, c WHERE one.k = two.v AND one.v = c.k",
    "group of join": "SELECT z, count(*) AS n, max(l.v) AS m FROM l, c WHERE l.k = c.k GROUP BY z",
    "outer join": "SELECT l.k, l.v, z FROM l LEFT JOIN c ON l.v = c.k AND l.k < z",
    "join of the tables below": "SELECT l.k, l.v, y, x FROM l, a, b WHERE l.k = a.k AND l.v = b.y",
}
"""Queries of the query below and of table c."""

COMMON = """
    WITH j AS (SELECT a.k, y AS v FROM a, b WHERE a.k = b.k), g AS (SELECT y AS k, max(k) AS v FROM b GROUP BY y),
        l AS ({below})
    {above}"""

OFTEN = {
    "join by two keys": ("union of joins", "window", "constants"),
    "self join": ("grouping sets", "single"),
    "group of join": ("not in",),
    "outer join": ("intersect all",),
    "join of the tables below": ("union of joins", "except"),
}
COMBINED = {
    f"{above} of {below}": COMMON.format(below=BELOW[below], above=ABOVE[above]) for below in BELOW for above in ABOVE
}
SOME = {f"{above} of {below}" for above, often in OFTEN.items() for below in often}


@dataclass
class InStages(Forgetful):
    """A view whose first rows are loaded in stages."""

    piece_bytes: int = 0

    def opened(self):
        sources = {name: jn.Source(schema, static=name in self.static) for name, schema in SCHEMAS.items()}
        policy = replace(SMALL_STATE, piece_bytes=self.piece_bytes)
        return forgetful(view_in(self.folder, self.query, sources=sources, policy=policy))


@pytest.mark.parametrize(
    ("query", "piece_bytes", "static"),
    [
        pytest.param(
            query, *way, id=f"{name}, {way}", marks=[] if name in SOME and way == (1_000, ()) else pytest.mark.nightly
        )
        for name, query in (QUERIES | COMBINED).items()
        for way in ((1_000, ()), (100, ()), (1_000, ("b",)))
    ],
)
def test_first_rows_in_stages(query, piece_bytes, static, tmp_path):
    check(InStages(query, 3, tmp_path / "state", static, epochs=2, populated=40, piece_bytes=piece_bytes))
