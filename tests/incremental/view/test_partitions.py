"""Windows, aggregates of any kind, grouping sets and set operations, beside DuckDB after every epoch."""

from __future__ import annotations

import pytest

from support.viewing import Viewed, check

# All columns of a, so that an order is the only one.
ALL = "x, t, d, f, k"

QUERIES = {
    "row number": f"SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY {ALL}) AS n FROM a",
    "ranks": "SELECT x, rank() OVER (PARTITION BY k ORDER BY x) AS r, dense_rank() OVER (ORDER BY x) AS d FROM a",
    "shares": """
        SELECT x, percent_rank() OVER (ORDER BY x) AS p, cume_dist() OVER (PARTITION BY k ORDER BY x) AS c FROM a""",
    "neighbours": f"""
        SELECT x, lag(x) OVER (PARTITION BY k ORDER BY {ALL}) AS b,
               lead(x, 2, -1) OVER (PARTITION BY k ORDER BY {ALL}) AS n
        FROM a""",
    "tiles": f"SELECT x, ntile(3) OVER (ORDER BY {ALL}) AS n FROM a",
    "values": f"""
        SELECT x, first_value(x IGNORE NULLS) OVER (PARTITION BY k ORDER BY {ALL}) AS f,
               nth_value(x, 2) OVER (PARTITION BY k ORDER BY {ALL}) AS n,
               last_value(x) OVER (PARTITION BY k ORDER BY {ALL} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS l
        FROM a""",
    "totals": "SELECT k, x, sum(x) OVER (PARTITION BY k) AS s, count(*) OVER () AS n FROM a",
    "running totals": "SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY x) AS s FROM a",
    "rows": f"SELECT x, sum(x) OVER (ORDER BY {ALL} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS s FROM a",
    "a range": """
        SELECT x, count(*) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM a""",
    "groups": """
        SELECT x, count(*) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) AS n FROM a""",
    "filtered": "SELECT x, count(DISTINCT x) FILTER (WHERE x > 1) OVER (PARTITION BY t ORDER BY k) AS n FROM a",
    "two partitions": """
        SELECT x, sum(x) OVER (PARTITION BY k) AS s, max(x) OVER (PARTITION BY t) AS m FROM a WHERE x > 0""",
    "partition by an expression": "SELECT x, sum(k) OVER (PARTITION BY x % 2, lower(t)) AS s FROM a",
    "partitions of any type": """
        SELECT count(*) OVER (PARTITION BY d) AS d, count(*) OVER (PARTITION BY f) AS f,
               count(*) OVER (PARTITION BY t, x > 2, DATE '2024-01-01' + k) AS t FROM a""",
    "qualify": f"SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY {ALL}) <= 2",
    "a condition on partitions": """
        SELECT * FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a) WHERE k = 1""",
    "a window of groups": "SELECT k, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC) AS r FROM a GROUP BY k",
    "a window of a join": """
        SELECT a.x, b.y, rank() OVER (PARTITION BY a.k ORDER BY b.y) AS r FROM a JOIN b ON a.k = b.k""",
    "a share": "SELECT k, sum(x) * 1.0 / sum(sum(x)) OVER () AS s FROM a GROUP BY k",
    "distinct on": f"SELECT * FROM (SELECT DISTINCT ON (k) k, x, t FROM a ORDER BY k, {ALL})",
    "first rows of each": """
        SELECT a.k, s.y FROM a, LATERAL (SELECT y FROM b WHERE b.k = a.k ORDER BY y DESC LIMIT 1) s""",
    "deviations": "SELECT k, stddev(x) AS s, var_pop(x) AS v, corr(x, k) AS c FROM a GROUP BY k",
    "medians": """
        SELECT t, median(x) AS m, quantile_cont(x, 0.25) AS q, quantile_disc(x, [0.1, 0.9]) AS d FROM a GROUP BY t""",
    "of all": "SELECT median(x) AS m, stddev_samp(x) AS s, bool_and(x > 0) AS b, count(*) AS n FROM a",
    "texts": """
        SELECT k, string_agg(t, ',' ORDER BY t) AS s,
               string_agg(DISTINCT t, '' ORDER BY t DESC) AS d FROM a GROUP BY k""",
    "lists": f"SELECT k, list(x ORDER BY {ALL}) AS l, max(x, 2) AS m FROM a GROUP BY k",
    "extremes by others": "SELECT t, arg_max(k, x) IS NULL AS a, max(t) AS m, bit_or(x) AS b FROM a GROUP BY t",
    "in groups of many": """
        SELECT k, t, x % 2 AS o, product(x) AS p, sum(d) FILTER (WHERE x > 1) AS s FROM a GROUP BY ALL""",
    "averages of times": "SELECT k, avg(DATE '2024-01-01' + x::INTEGER) AS m FROM a GROUP BY k",
    "of no groups": "SELECT median(x) AS m FROM a WHERE x > 2 HAVING count(*) > 1",
    "rollup": "SELECT k, t, count(*) AS n, sum(x) AS s FROM a GROUP BY ROLLUP (k, t)",
    "cube": "SELECT k, t, grouping(k, t) AS g, sum(x) AS s FROM a GROUP BY CUBE (k, t)",
    "grouping sets": "SELECT k, t, max(x) AS m, median(x) AS d FROM a GROUP BY GROUPING SETS ((k), (t), ())",
    "intersect": "SELECT k FROM a INTERSECT SELECT k FROM b",
    "intersect all": "SELECT k, x FROM a INTERSECT ALL SELECT k, y FROM b",
    "except": "SELECT k, x FROM a EXCEPT SELECT k, y FROM b",
    "except all": "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
    "set operations": "(SELECT k FROM a UNION ALL SELECT k FROM b) EXCEPT (SELECT k FROM c INTERSECT SELECT k FROM b)",
    "unnest": "SELECT x, unnest([x, k, 3]) AS u FROM a WHERE t = 'a'",
    "unnest, of lists of lengths": "SELECT k, unnest(range(x)) AS u, unnest(['p', 'q']) AS v FROM a",
    "group of unnest": "SELECT u, count(*) AS n FROM (SELECT unnest([k, x]) AS u FROM a) GROUP BY u",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("is_kept", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_query(name, is_kept, tmp_path):
    check(Viewed(QUERIES[name], 3, tmp_path / "state" if is_kept else None, epochs=6))
