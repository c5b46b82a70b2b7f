"""Windows, aggregates of any kind, grouping sets and set operations, beside DuckDB after every epoch."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import juncture as jn
from support.viewing import Viewed, check, database

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
    "orders by columns of one type": """
        SELECT x, rank() OVER (PARTITION BY t ORDER BY k) AS r, rank() OVER (PARTITION BY t ORDER BY x) AS s FROM a""",
    "orders from the end": """
        SELECT x, rank() OVER (ORDER BY x DESC NULLS FIRST) AS r, dense_rank() OVER (ORDER BY t DESC) AS d FROM a""",
    "running values": f"""
        SELECT k, count(x) OVER w AS n, sum(d) OVER w AS s, min(t) OVER w AS m, max(x) OVER w AS l, avg(x) OVER w AS a
        FROM a WINDOW w AS (PARTITION BY k ORDER BY {ALL} ROWS UNBOUNDED PRECEDING)""",
    "a range of decimals": """
        SELECT d, sum(x) OVER (PARTITION BY k ORDER BY d DESC RANGE BETWEEN 0.5 PRECEDING AND 1.25 FOLLOWING) AS s
        FROM a""",
    "a range of days": """
        SELECT x, count(*) OVER (ORDER BY DATE '2024-01-01' + x::INTEGER RANGE BETWEEN INTERVAL 1 MONTH PRECEDING
            AND INTERVAL 2 DAYS FOLLOWING EXCLUDE GROUP) AS n FROM a""",
    "a later frame": f"""
        SELECT x, max(x) OVER (PARTITION BY k ORDER BY {ALL} ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS m,
               sum(x) OVER (PARTITION BY k ORDER BY {ALL} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS s
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
    "groups of partitions": """
        SELECT k, x, sum(x) OVER (PARTITION BY k ORDER BY x DESC GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s,
            max(x) OVER (PARTITION BY t ORDER BY k GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS m FROM a""",
    "filtered": "SELECT x, count(DISTINCT x) FILTER (WHERE x > 1) OVER (PARTITION BY t ORDER BY k) AS n FROM a",
    "two partitions": """
        SELECT x, sum(x) OVER (PARTITION BY k) AS s, max(x) OVER (PARTITION BY t) AS m FROM a WHERE x > 0""",
    "partition by an expression": "SELECT x, sum(k) OVER (PARTITION BY x % 2, lower(t)) AS s FROM a",
    "partitions of any type": """
        SELECT count(*) OVER (PARTITION BY d) AS d, count(*) OVER (PARTITION BY f) AS f,
               count(*) OVER (PARTITION BY t, x > 2, DATE '2024-01-01' + k) AS t FROM a""",
    "qualify": f"SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY {ALL}) <= 2",
    "qualify by ranks": "SELECT k, x FROM a QUALIFY 2 >= rank() OVER (PARTITION BY t ORDER BY x DESC)",
    "qualify by dense ranks": """
        SELECT k, x, dense_rank() OVER w AS r, lead(x) OVER w AS l FROM a
        WINDOW w AS (PARTITION BY k ORDER BY x DESC, t) QUALIFY r <= 2""",
    "dense ranks of texts": "SELECT t, x FROM a QUALIFY dense_rank() OVER (ORDER BY 'a long prefix' || t, x) < 3",
    "constants before ranks": """
        SELECT * FROM (SELECT k, x, t, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a)
        WHERE (1 < r AND r < 5) OR (3 <= r AND x > 1) OR 2 = r""",
    "after the first": f"SELECT k, x FROM a QUALIFY 1 < row_number() OVER (PARTITION BY k ORDER BY {ALL})",
    "from the second": "SELECT k, x FROM a QUALIFY 2 <= rank() OVER (PARTITION BY t ORDER BY x)",
    "before the third": "SELECT k, x FROM a QUALIFY 3 > rank() OVER (PARTITION BY t ORDER BY x)",
    "the second": f"SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY f, {ALL}) = 2",
    "first rows with values": f"""
        SELECT * FROM (SELECT x, lead(x, 2) OVER w AS l, row_number() OVER w AS n FROM a
                       WINDOW w AS (PARTITION BY k ORDER BY {ALL})) WHERE n < 3""",
    "a condition on partitions": """
        SELECT * FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM a) WHERE k = 1""",
    "a window of groups": "SELECT k, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC) AS r FROM a GROUP BY k",
    "a window of a join": """
        SELECT a.x, b.y, rank() OVER (PARTITION BY a.k ORDER BY b.y) AS r FROM a JOIN b ON a.k = b.k""",
    "a share": "SELECT k, sum(x) * 1.0 / sum(sum(x)) OVER () AS s FROM a GROUP BY k",
    "distinct on": f"SELECT * FROM (SELECT DISTINCT ON (k) k, x, t FROM a ORDER BY k, {ALL})",
    "distinct on, in another order": f"SELECT * FROM (SELECT DISTINCT ON (k, t) k, x, t FROM a ORDER BY f DESC, {ALL})",
    "distinct on, in no order": "SELECT DISTINCT ON (k) k FROM a",
    "first rows of each": """
        SELECT a.k, s.y FROM a, LATERAL (SELECT y FROM b WHERE b.k = a.k ORDER BY y DESC LIMIT 1) s""",
    "deviations": "SELECT k, stddev(x) AS s, var_pop(x) AS v, corr(x, k) AS c FROM a GROUP BY k",
    "deviations of numbers": """
        SELECT t, var_samp(d) AS a, variance(x * 1e9 + 0.1) AS b, stddev_pop(DISTINCT x) AS c, stddev_samp(k) AS s,
               var_pop(x) FILTER (WHERE k > 1) AS v, stddev(f) AS f
        FROM a GROUP BY t""",
    "truths": """
        SELECT k, bool_and(x > 0) AS a, bool_or(x > 2) AS o, count_if(x > 1) AS n, count_if(DISTINCT x > 1) AS d,
               bool_and(t = 'a') FILTER (WHERE k > 1) AS f FROM a GROUP BY k""",
    "truths of all": "SELECT bool_and(x > 0) AS a, bool_or(x > 2) AS o, count_if(x > 1) AS n FROM a",
    "values of extremes": """
        SELECT t, arg_max(x, x) AS a, min_by(d, d) AS m, max_by(f, f) AS f FROM a GROUP BY t""",
    "first in an order": f"""
        SELECT k, first(x ORDER BY {ALL}) AS f, last(t ORDER BY {ALL}) AS l, any_value(d ORDER BY t DESC, {ALL}) AS a,
               last(x ORDER BY d DESC NULLS FIRST, {ALL}) AS m, any_value(x ORDER BY x DESC) FILTER (WHERE x > 1) AS w,
               first(x ORDER BY x) FILTER (WHERE k > 1) AS g, sum(x ORDER BY t) AS s
        FROM a GROUP BY k""",
    "first, with and without nulls": """
        SELECT k, first(x ORDER BY t, d, f, x) AS f, any_value(x ORDER BY t, d, f, x) AS a FROM a GROUP BY k""",
    "first of all": f"SELECT first(t ORDER BY {ALL}) AS t, last(f ORDER BY f, {ALL}) AS f FROM a WHERE x > 1",
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


BOUNDED = {
    "first rows": ("SELECT k, x FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x) <= 3", 10),
    "first values": ("SELECT k, x FROM a QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY x DESC) <= 3", 10),
    "groups": ("SELECT sum(x) OVER (ORDER BY x GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM a", 30),
    "distinct on": ("SELECT * FROM (SELECT DISTINCT ON (k) k, x, t FROM a ORDER BY k, x DESC)", 10),
    "neighbours": ("SELECT lag(x, 2) OVER (PARTITION BY k ORDER BY x) AS b, lead(x) OVER (ORDER BY x) AS n FROM a", 40),
    "rows": ("SELECT sum(x) OVER (PARTITION BY k ORDER BY x ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM a", 30),
    "a range": ("SELECT avg(x) OVER (ORDER BY x RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM a", 30),
    "value of the greatest": ("SELECT arg_max(t, x) AS t, last(x ORDER BY x, t) AS l FROM a", 0),
    "deviation": ("SELECT stddev(x) > 1 AS s, bool_and(x > 1) AS b FROM a", 0),
    "the last rows": (
        """
        SELECT rank() OVER w AS r, sum(x) OVER (PARTITION BY k ORDER BY x) AS s, max(x) OVER w AS m
        FROM a WINDOW w AS (ORDER BY x)""",
        30,
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("is_on_disk", [False, True])
def test_a_change_reads_a_part_of_its_partition(name, is_on_disk, tmp_path):
    sql, most = BOUNDED[name]
    rows = pa.table(
        {"k": pa.array([1] * 2_000, pa.int32()), "x": pa.array(range(2_000), pa.int64()), "t": ["a"] * 2_000}
    )
    view = jn.view(tmp_path / "state" if is_on_disk else None, sql, sources={"a": rows.schema})
    view.populate(a=rows)
    before = computed_rows(view)
    for changed in (rows.slice(1_995, 1), pa.table([[1], [1_995], ["b"]], schema=rows.schema)):
        weight = -1 if changed["t"][0].as_py() == "a" else 1
        view.apply(a=changed.append_column("_weight", pa.array([weight], pa.int64())))
        rows = rows.filter(pc.not_equal(rows["x"], 1_995)) if weight < 0 else pa.concat_tables([rows, changed])
        with database().cursor() as connection:
            connection.register("a", rows)
            expected = Counter(connection.execute(sql).fetchall())
        assert Counter(tuple(row.values()) for row in view.result().to_pylist()) == expected
    assert computed_rows(view) - before <= 2 * most
    view.close()


def computed_rows(view):
    return sum(getattr(each, "computed_rows", 0) for each in view._graph.operators)
