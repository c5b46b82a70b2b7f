"""Subqueries in expressions: semi, anti, mark and single joins, correlated or not, beside DuckDB after every epoch."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError
from support.viewing import SCHEMAS, Viewed, check

QUERIES = {
    "in": "SELECT x, t FROM a WHERE k IN (SELECT k FROM b)",
    "in, of a filtered table": "SELECT x FROM a WHERE k IN (SELECT k FROM b WHERE y > 1) AND x > 0",
    "not in": "SELECT x, t FROM a WHERE k NOT IN (SELECT k FROM b)",
    "not in, without nulls": "SELECT x, k FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "not in, of little": "SELECT x, k FROM a WHERE k NOT IN (SELECT k FROM b WHERE k = 3 AND y > 2)",
    "in, as a value": "SELECT x, k IN (SELECT k FROM b WHERE y > 2) AS i, x NOT IN (SELECT z FROM c) AS n FROM a",
    "in or": "SELECT x FROM a WHERE k IN (SELECT k FROM b) OR x > 3",
    "in, of pairs": "SELECT x, (k, x) IN (SELECT k, y FROM b) AS i FROM a",
    "not in, of pairs": "SELECT x FROM a WHERE (k, x) NOT IN (SELECT k, y FROM b WHERE y > 1)",
    "in, correlated": "SELECT x, x IN (SELECT y FROM b WHERE b.k = a.k) AS i FROM a",
    "not in, correlated": "SELECT x, k FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.k = a.k)",
    "in, correlated by an inequality": "SELECT x, k FROM a WHERE x IN (SELECT y FROM b WHERE b.k < a.k)",
    "exists": "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > 1)",
    "not exists": "SELECT x, k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "not exists, at all": "SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE y = 3)",
    "exists, by more": "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y <> a.x)",
    "not exists, by more": "SELECT x, k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y > a.x)",
    "exists, as a value": "SELECT x, EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AS e FROM a",
    "exists twice": """
        SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)
        AND NOT EXISTS (SELECT 1 FROM c WHERE c.z = a.x)""",
    "a scalar": "SELECT x, (SELECT max(y) FROM b) AS m FROM a",
    "a scalar, correlated": "SELECT x, (SELECT sum(y) FROM b WHERE b.k = a.k) AS s FROM a",
    "a count, correlated": "SELECT x, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a",
    "a scalar in a condition": "SELECT k, x FROM a WHERE x > (SELECT avg(y) FROM b WHERE b.k = a.k)",
    "a scalar, correlated by an inequality": "SELECT x, (SELECT min(y) FROM b WHERE b.y > a.x) AS m FROM a",
    "a single value": "SELECT x, (SELECT DISTINCT k FROM b WHERE b.k = a.k) AS s FROM a",
    "any and all": "SELECT x, x > ANY (SELECT y FROM b) AS y, x >= ALL (SELECT y FROM b WHERE y < 4) AS z FROM a",
    "any, correlated": "SELECT x FROM a WHERE x = ANY (SELECT y FROM b WHERE b.k = a.k)",
    "all but": "SELECT x, x <> ALL (SELECT y FROM b WHERE b.k = a.k) AS n FROM a",
    "semi join": "SELECT a.x FROM a SEMI JOIN b ON a.k = b.k",
    "semi join by more": "SELECT a.x FROM a SEMI JOIN b ON a.k = b.k AND a.x < b.y",
    "anti join": "SELECT a.x, a.k FROM a ANTI JOIN b ON a.k = b.k",
    "anti join by more": "SELECT a.x, a.t FROM a ANTI JOIN b ON a.x + b.y > 4",
    "left join by a sum": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x + b.y > 3",
    "full join by a sum": "SELECT a.x, a.t, b.y FROM a FULL JOIN b ON a.k = b.k AND a.x + b.y = 4",
    "right join by a sum": "SELECT a.x, b.y, b.k FROM a RIGHT JOIN b ON a.x + b.y > 3",
    "null-safe left join": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.k IS NOT DISTINCT FROM b.k",
    "lateral": "SELECT a.x, s.n FROM a, LATERAL (SELECT count(*) AS n FROM b WHERE b.k = a.k) s",
    "a group of in": """
        SELECT t, count(*) AS n FROM a WHERE k IN (SELECT k FROM b GROUP BY k HAVING count(*) > 1) GROUP BY t""",
    "nested": "SELECT x FROM a WHERE k IN (SELECT k FROM b WHERE y IN (SELECT z FROM c WHERE c.k = b.k))",
    "common tables": """
        WITH g AS (SELECT k, sum(y) AS s FROM b GROUP BY k)
        SELECT a.x, g.s FROM a JOIN g ON a.k = g.k WHERE g.s > (SELECT avg(s) FROM g)""",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("is_kept", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_subquery(name, is_kept, tmp_path):
    check(Viewed(QUERIES[name], 2, tmp_path / "state" if is_kept else None, epochs=7))


@pytest.mark.parametrize(
    "sql", ["SELECT x, (SELECT y FROM b) AS y FROM a", "SELECT x, (SELECT y FROM b WHERE b.k = a.k) AS y FROM a"]
)
def test_a_scalar_of_several_rows_fails_the_epoch(sql):
    view = jn.view(None, sql, sources={name: SCHEMAS[name] for name in "ab"})
    rows = pa.table({"k": [1, 1], "y": [5, 6]}, schema=SCHEMAS["b"])
    view.apply(b=rows.slice(0, 1))
    one = pa.table({"k": [1], "x": [1], "t": [None], "d": [None], "f": [None]}, schema=SCHEMAS["a"])
    view.apply(a=one)
    with pytest.raises(DataError, match=r"[Mm]ore than one row"):
        view.apply(b=rows.slice(1))
    assert view.result().to_pylist() == [{"x": 1, "y": 5}]


def test_scalars_that_change_together_do_not_multiply_changes():
    scalars = ", ".join(f"(SELECT sum(x) FROM a WHERE k <> {number}) AS s{number}" for number in range(12))
    view = jn.view(None, f"SELECT {scalars} FROM c", sources=SCHEMAS)
    row = pa.table({"k": [99], "x": [1], "t": [None], "d": [None], "f": [None]}, schema=SCHEMAS["a"])
    view.populate(a=row, c=pa.table({"k": [1], "z": [1]}, schema=SCHEMAS["c"]))
    view.apply(a=row)
    assert [list(each.values()) for each in view.result().to_pylist()] == [[2] * 12]
    # Each path emits an old and a new row for each scalar.
    assert view._runtime.dataflow.most_rows <= 2 * 13
