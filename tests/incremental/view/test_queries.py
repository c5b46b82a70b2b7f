"""After every epoch, a view is what DuckDB answers over the tables as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from support.viewing import SCHEMAS, Forgetful, Viewed, check, database

QUERIES = {
    "filter": "SELECT a.x + 1 AS y, a.t FROM a WHERE a.k = 1 OR a.x IS NULL",
    "expressions": """
        SELECT k, CASE WHEN x > 2 THEN 'big' WHEN x IS NULL THEN t ELSE lower(t) || '!' END AS w, coalesce(x, -1) c,
               x // 2 h, x % 3 m, x / 4 q, d * 2 - 1 AS e, NOT (x BETWEEN 1 AND 3) AS n, t LIKE 'a%' l, x IN (1, NULL) i
        FROM a""",
    "types": """
        SELECT CAST(x AS DOUBLE) f, CAST(d AS INTEGER) i, CAST(x AS VARCHAR) s, CAST(d AS DECIMAL(10, 1)) r,
               round(d, 1) o, abs(x - 3) b, greatest(x, k) g, least(d, x) m, nullif(x, 2) z,
               f = 0 AS zero, f > 1 AS more
        FROM a""",
    "join": "SELECT a.x, b.y, a.t FROM a JOIN b ON a.k = b.k WHERE b.y > 1",
    "comma join": "SELECT a.x, b.y, c.k FROM a, b, c WHERE a.k = b.k AND c.k = b.k AND c.z > a.x",
    "comma before a right join": "SELECT a.x, b.k, c.k AS ck FROM a, b RIGHT JOIN c ON b.k = c.k",
    "comma before a full join": "SELECT a.x, b.k, c.k AS ck FROM a, b FULL JOIN c ON b.k = c.k WHERE a.x > 1",
    "comma before a left join": "SELECT a.x, b.k, c.k AS ck FROM a, b LEFT JOIN c ON b.k = c.k AND a.x > c.z",
    "commas and joins": """
        SELECT a.x, b.k, c.k AS ck, d.y FROM a JOIN c e ON a.k = e.z, b RIGHT JOIN c ON b.k = c.k, b d
        WHERE d.y = a.k AND d.k = c.z""",
    "chain of joins": """
        SELECT a.x, b.y, c.z, d.k
        FROM a JOIN b ON a.k = b.k JOIN c ON b.y = c.k JOIN b d ON d.y = c.z AND d.k <> a.x""",
    "join by what two make": """
        SELECT a.x, b.y, c.z FROM a, b, c WHERE a.k = b.k AND a.x + b.y = c.z AND a.x < b.y + c.k""",
    "join of joins": """
        WITH ab AS (SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k)
        SELECT ab.x, c.z FROM ab JOIN c ON ab.y = c.k
        UNION ALL SELECT ab.x, two.y FROM ab JOIN ab two ON ab.y = two.x""",
    "a key in both sides of OR": """
        SELECT a.x, b.y FROM a, b WHERE (a.k = b.k AND a.x > 1 AND b.y < 3) OR (a.x = 2 AND a.k = b.k AND b.y > a.x)""",
    "cross join and more": "SELECT a.x, b.y, c.z FROM a, b, c WHERE b.k = c.k AND a.x + c.z = 4",
    "cross join": "SELECT a.x, c.z FROM a CROSS JOIN c WHERE a.x + c.z = 4",
    "using": "SELECT * FROM a JOIN b USING (k)",
    "null-safe": "SELECT a.x, b.y FROM a JOIN b ON a.k IS NOT DISTINCT FROM b.k",
    "self join": "SELECT one.x, two.x AS other FROM a one, a two WHERE one.k = two.x",
    "left join": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.y > 2",
    "left join on more": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1 AND a.x < b.y",
    "right join": "SELECT a.x, b.y FROM a RIGHT JOIN b ON a.k = b.k WHERE b.y <> 3",
    "full join": "SELECT a.x, b.y, a.k FROM a FULL JOIN b ON a.k = b.k",
    "left join, filtered": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.k = b.k WHERE a.x > 0 AND b.y IS NULL",
    "inequality": "SELECT a.x, b.y FROM a JOIN b ON a.x < b.y AND a.k = b.k",
    "inequality and more": "SELECT a.x, b.y, a.k FROM a JOIN b ON a.x < b.y AND a.x + b.y > 3 AND a.k + 1 > b.k - 1",
    "left join by either": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.y OR (a.k = b.k AND NOT a.x < b.y)",
    "band": "SELECT a.x, b.y FROM a JOIN b ON a.x BETWEEN b.y - 1 AND b.y + 1",
    "left inequality": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x > b.y",
    "group": "SELECT k, count(*) n, count(x) c, sum(x) s, avg(x) v, min(x) lo, max(x) hi, sum(d) e FROM a GROUP BY k",
    "floats": "SELECT k, sum(f) s, avg(f) v, min(f) lo, max(f) hi FROM a GROUP BY k",
    "texts": "SELECT k, min(t) lo, max(t) hi, count(DISTINCT t) n FROM a GROUP BY k",
    "decimals": "SELECT t, avg(d) v, min(d) lo, max(d) hi, sum(d * d) s FROM a GROUP BY ALL",
    "distinct values": "SELECT t, count(DISTINCT x) n, sum(DISTINCT x) s, avg(DISTINCT d) v FROM a GROUP BY t",
    "all": "SELECT count(*) n, sum(x) s, max(t) m FROM a WHERE x > 2",
    "aggregates of NULL": "SELECT count(NULL) n, sum(NULL) s, min(NULL) lo, max(NULL) hi FROM a",
    "having": "SELECT k, t, sum(x) s FROM a GROUP BY k, t HAVING count(*) > 1 AND sum(x) > 3",
    "group by expression": "SELECT x % 2 AS odd, sum(k + x) + count(*) s FROM a GROUP BY x % 2",
    "group by many": "SELECT k, t, d, f, x % 2 AS odd, count(*) n FROM a GROUP BY k, t, d, f, x % 2",
    "group by place": "SELECT k + 1 AS next, max(x) m FROM a GROUP BY 1 HAVING m > 1",
    "group of join": "SELECT a.k, sum(a.d * b.y) s FROM a, b WHERE a.k = b.k AND b.y < 4 GROUP BY a.k",
    "group of group": "SELECT n, count(*) c FROM (SELECT k, count(*) n FROM a GROUP BY k) GROUP BY n",
    "union all": "SELECT k, x FROM a WHERE x > 1 UNION ALL SELECT k, y FROM b UNION ALL SELECT k, x FROM a",
    "union": "SELECT k FROM a UNION SELECT k FROM b",
    "union of types": "SELECT d AS v FROM a UNION ALL SELECT y FROM b UNION ALL SELECT NULL FROM c",
    "distinct": "SELECT DISTINCT k, t FROM a",
    "distinct floats": "SELECT DISTINCT f FROM a",
    "common table": """
        WITH totals AS (SELECT k, t, sum(x) s FROM a GROUP BY k, t)
        SELECT one.k, one.s, two.s AS other FROM totals one, totals two
        WHERE one.k = two.k AND one.t = 'a' AND two.t = 'b' AND one.s > 0""",
    "common table, of one column and of another": """
        WITH totals AS (SELECT k, t, sum(x) s FROM a GROUP BY k, t)
        SELECT one.k, one.s, two.s AS other FROM totals one, totals two
        WHERE one.k = two.k AND one.t = 'a' AND two.k > 1
        UNION ALL SELECT k, s, 0 FROM totals WHERE t = 'b' AND k = 1 AND s > 2""",
    "common table, whole and in part": """
        WITH totals AS (SELECT k, t, sum(x) s FROM a GROUP BY k, t)
        SELECT one.k, one.s, two.s AS other FROM totals one LEFT JOIN totals two ON one.k = two.k AND two.t = 'b'""",
    "sub-select": "SELECT v.w, c.z FROM (SELECT k, x * 2 AS w FROM a WHERE x > 0) AS v JOIN c ON v.k = c.k",
    "top": "SELECT x, k, t, d FROM a ORDER BY x DESC, k, t, d LIMIT 3",
    "top, nulls first": "SELECT x, t FROM a ORDER BY t NULLS FIRST, x LIMIT 4 OFFSET 1",
    "top of groups": "SELECT k, sum(x) s FROM a GROUP BY k ORDER BY s DESC NULLS LAST, k LIMIT 2",
    "top of union": "SELECT k FROM a UNION ALL SELECT k FROM b ORDER BY k DESC LIMIT 5",
    "top floats": "SELECT f FROM a ORDER BY f DESC LIMIT 3",
    "top, by an expression": "SELECT x, k FROM a ORDER BY abs(x - 3), k, x LIMIT 3",
    "top, by a column of that name": "SELECT -x AS x, k, t FROM a ORDER BY x * 2 DESC, k, t, d, f LIMIT 3",
    "top, by a column of the result": "SELECT x * k AS p FROM a ORDER BY -p LIMIT 3",
    "top of groups, by an expression": "SELECT k, sum(x) s FROM a GROUP BY k ORDER BY abs(s - 3), k LIMIT 2",
    "top, hidden": "SELECT k FROM a ORDER BY x, k LIMIT 3",
    "order": "SELECT x, k FROM a ORDER BY x DESC, k",
    "names of columns": "SELECT q.p, q.x, v.w FROM a AS q(p), (SELECT y, k FROM b) AS v(w) WHERE q.p = v.k",
    "names of columns of a common table": """
        WITH g(p, n) AS (SELECT k, count(*) FROM a GROUP BY k) SELECT g.p, v.m FROM g JOIN g AS v(o, m) ON g.n = v.o""",
    "joins by sums of decimals": """
        WITH s AS (SELECT k, sum(d) AS s FROM a GROUP BY k), w AS (SELECT k, sum(d * 1.000000) AS s FROM a GROUP BY k)
        SELECT s.k, w.k AS o, b.y FROM s LEFT JOIN w ON s.s = w.s JOIN b ON s.s < b.y WHERE s.s <= w.s""",
    "an as-of join": """
        SELECT * FROM c ASOF LEFT JOIN (SELECT k, y, count(*) AS n FROM b GROUP BY k, y) g
        ON c.k = g.k AND c.z >= g.y""",
    "an as-of join, the right key": """
        SELECT g.k, g.y FROM c ASOF JOIN (SELECT DISTINCT k, y FROM b) g ON c.k = g.k AND c.z > g.y""",
    "an as-of join by floats": """
        SELECT one.f, two.f AS g FROM a one ASOF LEFT JOIN (SELECT DISTINCT f, k FROM a) two
        ON one.k = two.k AND one.f >= two.f""",
    "join of groups": """
        SELECT c.k, c.z, g.n FROM c LEFT JOIN (SELECT k, count(*) n FROM a WHERE x <> 2 GROUP BY k) g ON g.k = c.k""",
    "never": "SELECT x FROM a WHERE k = 1 AND 1 = 2 UNION ALL SELECT y FROM b WHERE NULL",
    "empty group": "SELECT count(*) n, sum(x) s FROM a WHERE 1 = 2",
}


@pytest.mark.parametrize(
    ("query", "is_kept"),
    [
        # Each query in each run, in memory or with a state that is opened again; and in both ways in a nightly run.
        pytest.param(
            query,
            is_kept,
            marks=pytest.mark.nightly if (number + is_kept) % 2 else [],
            id=f"{name}, {'kept' if is_kept else 'in memory'}",
        )
        for number, (name, query) in enumerate(QUERIES.items())
        for is_kept in (False, True)
    ],
)
def test_a_query(query, is_kept, tmp_path):
    check(Viewed(query, int(is_kept), tmp_path / "state" if is_kept else None))


@pytest.mark.parametrize("query", ["comma join", "common table", "self join", "full join", "group of join"])
def test_keys_that_are_forgotten(query):
    check(Forgetful(QUERIES[query], 3, None, epochs=12))


def test_a_key_in_both_sides_of_or_is_the_key_of_the_join():
    view = jn.view(None, QUERIES["a key in both sides of OR"], sources=SCHEMAS)
    assert "join on k = k" in view.explain()


UNSELECTED_ORDERS = [
    "SELECT x FROM a ORDER BY k, x",
    "SELECT x FROM a ORDER BY k DESC NULLS FIRST, t, x",
    "SELECT x, x AS again FROM a ORDER BY k + x, x",
    "SELECT t FROM a ORDER BY t COLLATE NOCASE, t",
    "SELECT DISTINCT x FROM a ORDER BY x DESC",
    "SELECT x FROM a ORDER BY k, x LIMIT 3 OFFSET 1",
    "SELECT x + 1 AS y FROM (SELECT x, k FROM a ORDER BY k, x) AS q",
    "WITH w AS MATERIALIZED (SELECT x, k FROM a) SELECT x FROM w ORDER BY k, x",
    "SELECT count(*) AS n FROM a GROUP BY k ORDER BY k",
    "SELECT n FROM (WITH w AS MATERIALIZED (SELECT k AS n, x FROM a) SELECT n FROM w ORDER BY x) AS q ORDER BY n",
]


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("sql", UNSELECTED_ORDERS)
def test_the_order_of_a_result_by_columns_that_are_not_selected(sql, in_folder, tmp_path):
    rows = [(k, x, t) for k in (None, 1, 2) for x, t in ((1, "b"), (2, "A"), (3, "a"), (4, None))]
    rows = rows[::-1] + rows[:2]
    connection, view = database().cursor(), None
    for end in (5, 9, len(rows)):
        view = view or jn.view(tmp_path / "state" if in_folder else None, sql, sources={"a": SCHEMAS["a"]})
        added = rows[len(view.table("a")) : end]
        changes = view.apply(
            a=pa.Table.from_pylist([dict(zip("kxt", row, strict=True)) for row in added], SCHEMAS["a"])
        )
        assert all(batch.schema.names[:-1] == view.answer_schema.names for batch in changes)
        a = pa.Table.from_pylist([dict(zip("kxt", row, strict=True)) for row in rows[:end]], SCHEMAS["a"])
        connection.register("a", a)
        assert view.result().to_pylist() == connection.sql(sql).to_arrow_table().to_pylist()
        if in_folder:
            assert view.last() is not None
            view.close()
            view = None


@pytest.mark.parametrize("static", [(), ("a",), ("a", "b"), ("a", "b", "c")])
def test_a_join_by_one_key_of_three_inputs_that_never_change(static):
    sources = {name: jn.Source(schema, static=name in static) for name, schema in SCHEMAS.items()}
    sql = "SELECT a.k, v.n FROM a JOIN b USING (k) JOIN c USING (k) JOIN (VALUES (1, 2), (2, 3)) AS v(k, n) USING (k)"
    rows = {name: pa.Table.from_pylist([{"k": 1}, {"k": 3}], schema) for name, schema in SCHEMAS.items()}
    with jn.view(None, sql, sources=sources) as view:
        view.populate(**rows)
        assert view.result().to_pylist() == [{"k": 1, "n": 2}]


def test_a_join_shares_the_rows_of_a_source_whose_columns_it_reads_in_another_order():
    view = jn.view(None, "SELECT b.y, a.t, a.k, a.x FROM b JOIN a ON b.k = a.k", sources=SCHEMAS)
    assert "rows of" not in view.explain()


@pytest.mark.parametrize("static", [("b",), ("c",), ("b", "c")])
def test_joins_of_static_sources(static):
    query = "SELECT a.x, b.y, c.z FROM a, b, c WHERE a.k = b.k AND c.k = b.y"
    check(Viewed(query, 3, None, static=static))


def test_a_join_of_nothing_but_static_sources():
    query = "SELECT b.y, c.z, d.y AS w FROM b, c, b d WHERE b.k = c.k AND c.z = d.k"
    check(Viewed(query, 3, None, static=("b", "c")))


def test_a_static_source():
    check(Viewed("SELECT a.k, sum(a.x * c.z) s FROM a JOIN c ON a.k = c.k GROUP BY a.k", 5, None, static=("c",)))
