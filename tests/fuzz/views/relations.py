"""Random relations of three columns: joins, subqueries, groups, windows, set operations and first rows in one another.

All relations have the columns ``k``, ``x`` and ``t``, so that any of them can stand in the place of another.
"""

from __future__ import annotations

from random import Random

from fuzz.views.terms import Term

__all__ = ["LEAVES", "relation"]

LEAVES = [
    "SELECT a.int_0 % 3 AS k, a.id AS x, a.text_0 AS t FROM a",
    "SELECT a.id % 2 AS k, CAST(a.int_1 % 4 AS BIGINT) AS x, a.text_1 AS t FROM a",
    "SELECT b.int_0 % 3 AS k, b.id AS x, b.text_0 AS t FROM b",
    "SELECT b.id AS k, CAST(b.int_1 % 3 AS BIGINT) AS x, CAST(b.bool_0 AS VARCHAR) AS t FROM b",
    "SELECT v.k::BIGINT AS k, v.x::BIGINT AS x, v.t FROM (VALUES (1, 2, 'a'), (NULL, 1, NULL)) AS v(k, x, t)",
    "SELECT a.int_0 % 3 AS k, a.id AS x, a.text_0 AS t FROM a WHERE a.bool_0",
]

RELATIONS = [
    # Joins
    "SELECT l.k, r.x, l.t FROM ({}) AS l HOW ({}) AS r ON CONDITION",
    "SELECT l.k, r.x, r.t FROM ({}) AS l HOW ({}) AS r ON CONDITION WHERE BOTH",
    "SELECT k, l.x, r.t FROM ({}) AS l HOW ({}) AS r USING (k)",
    "SELECT l.* FROM ({}) AS l SEMI JOIN ({}) AS r ON CONDITION",
    "SELECT l.* FROM ({}) AS l ANTI JOIN ({}) AS r ON CONDITION",
    "SELECT l.k, r.x, l.t FROM ({}) AS l ASOF JOIN ({}) AS r ON l.k = r.k AND l.x >= r.x",
    "SELECT l.k, r.x, l.t FROM ({}) AS l ASOF LEFT JOIN ({}) AS r ON l.k = r.k AND l.x < r.x",
    "SELECT l.k, s.x, l.t FROM ({}) AS l, LATERAL (SELECT AGGREGATE AS x FROM ({}) AS q WHERE q.k = l.k) AS s",
    "SELECT l.k, s.x, l.t FROM ({}) AS l, LATERAL (SELECT q.x FROM ({}) AS q WHERE q.k COMPARED l.x) AS s",
    # Subqueries
    "SELECT l.* FROM ({}) AS l WHERE l.k IN (SELECT r.x FROM ({}) AS r)",
    "SELECT l.* FROM ({}) AS l WHERE l.k NOT IN (SELECT r.x FROM ({}) AS r WHERE r.k = l.k)",
    "SELECT l.* FROM ({}) AS l WHERE EXISTS (SELECT 1 FROM ({}) AS r WHERE CONDITION)",
    "SELECT l.* FROM ({}) AS l WHERE NOT EXISTS (SELECT 1 FROM ({}) AS r WHERE CONDITION)",
    "SELECT l.* FROM ({}) AS l WHERE l.x COMPARED ANY (SELECT r.k FROM ({}) AS r)",
    "SELECT l.* FROM ({}) AS l WHERE (l.x COMPARED ALL (SELECT r.k FROM ({}) AS r WHERE r.k = l.k)) IS NOT FALSE",
    "SELECT l.k, (SELECT AGGREGATE FROM ({1}) AS q WHERE q.k COMPARED l.k) AS x, l.t FROM ({0}) AS l",
    "SELECT l.k, CASE WHEN l.k IN (SELECT q.k FROM ({1}) AS q) THEN 1 ELSE l.x END AS x, l.t FROM ({0}) AS l",
    "SELECT l.* FROM ({}) AS l WHERE l.k IN (SELECT r.k FROM ({}) AS r) OR l.x > 2",
    # Groups
    "SELECT k, AGGREGATE AS x, min(t) AS t FROM ({}) AS q GROUP BY k",
    "SELECT k, AGGREGATE AS x, t FROM ({}) AS q GROUP BY k, t HAVING count(*) > 1",
    "SELECT k, AGGREGATE AS x, CAST(GROUPING(t) AS VARCHAR) AS t FROM ({}) AS q GROUP BY GROUPED",
    "SELECT max(k) AS k, AGGREGATE AS x, max(t) AS t FROM ({}) AS q",
    "SELECT max(k) AS k, AGGREGATE AS x, string_agg(t, ',' ORDER BY t) AS t FROM ({}) AS q GROUP BY x % 2",
    "SELECT DISTINCT * FROM ({}) AS q",
    "SELECT DISTINCT ON (k) k, x, t FROM ({}) AS q ORDER BY k, x DESC, t",
    # Windows
    "SELECT k, CAST(WINDOW AS BIGINT) AS x, t FROM ({}) AS q",
    "SELECT k, CAST(WINDOW AS BIGINT) AS x, t FROM ({}) AS q WHERE FILTERED",
    "SELECT * FROM (SELECT k, CAST(WINDOW AS BIGINT) AS x, t FROM ({}) AS q) AS q WHERE FILTERED",
    "SELECT * FROM ({}) AS q QUALIFY row_number() OVER (PARTITION BY k ORDER BY x, t) <= 2",
    "SELECT * FROM ({}) AS q QUALIFY rank() OVER (PARTITION BY k ORDER BY x DESC) = 1",
    "SELECT * FROM ({}) AS q QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY x DESC, t) <= 2",
    "SELECT * FROM ({}) AS q QUALIFY CAST(WINDOW AS BIGINT) > 1",
    # Others
    "({}) UNION ({})",
    "({}) UNION ALL ({})",
    "({}) INTERSECT ({})",
    "({}) INTERSECT ALL ({})",
    "({}) EXCEPT ({})",
    "({}) EXCEPT ALL ({})",
    "SELECT * FROM ({}) AS q ORDER BY k NULLS FIRST, x DESC, t LIMIT 3 OFFSET 1",
    "WITH w AS ({}) SELECT w.k, v.x, w.t FROM w JOIN w AS v ON w.k = v.x",
    "WITH w AS MATERIALIZED ({}) SELECT * FROM w WHERE x > 1 UNION ALL SELECT k, max(x), min(t) FROM w GROUP BY k",
    "SELECT * FROM ({}) AS q WHERE FILTERED",
    "SELECT x AS k, k AS x, t FROM ({}) AS q",
    "SELECT k + 1 AS k, x * 2 AS x, coalesce(upper(t), 'n') AS t FROM ({}) AS q",
    "SELECT k, unnest([x, k, NULL]) AS x, t FROM ({}) AS q",
]
"""Relations over others."""

OVER = [
    "OVER (PARTITION BY k ORDER BY x, t)", "OVER (ORDER BY x)", "OVER (PARTITION BY k)", "OVER ()",
    "OVER (PARTITION BY k ORDER BY x DESC NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "OVER (PARTITION BY k ORDER BY x GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)",
    "OVER (ORDER BY k, x, t ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
    "OVER (PARTITION BY k ORDER BY x GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    "OVER (PARTITION BY t ORDER BY k, x RANGE UNBOUNDED PRECEDING EXCLUDE GROUP)",
]  # fmt: skip

BLANKS = {
    "CONDITION": [
        "l.k = r.k", "l.k = r.k AND l.x < r.x", "l.x <= r.x", "l.k IS NOT DISTINCT FROM r.k", "l.k + r.x > 2",
        "l.k = r.k OR l.x = r.x", "l.t = r.t", "l.k = r.x AND l.t <> r.t", "l.k = r.k AND l.x > 1",
        "l.k = r.k AND r.x > 1",
    ],
    "HOW": ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"],
    "FILTERED": ["k > 0", "k IS NULL", "x <> 2", "k = 1 OR x = 1", "t IS NOT NULL", "k = 1 AND x > 0"],
    "BOTH": ["l.k > 0", "r.k IS NULL", "l.x <> r.x", "l.k = 1 OR r.x = 1", "coalesce(r.x, 0) < 3"],
    "COMPARED": ["=", "<>", "<", "<=", ">", ">="],
    "AGGREGATE": [
        "count(*)", "count(x)", "count(DISTINCT x)", "CAST(sum(x) AS BIGINT)", "max(x)", "min(x)",
        "CAST(median(x) AS BIGINT)", "quantile_disc(x, 0.5)", "arg_min(x, x)", "bit_xor(x)",
        "CAST(bool_or(x > 1) AS BIGINT)", "list(x ORDER BY x)[1]", "CAST(sum(DISTINCT x) AS BIGINT)",
        "CAST(sum(x) FILTER (WHERE x > 1) AS BIGINT)", "CAST(avg(x) AS BIGINT)", "CAST(bool_and(x > 0) AS BIGINT)",
    ],
    "GROUPED": ["ROLLUP (k, t)", "CUBE (k, t)", "GROUPING SETS ((k), (t), ())", "GROUPING SETS ((k, t), (k))"],
    "WINDOW": [
        "row_number() OVER (PARTITION BY k ORDER BY x, t)", "row_number() OVER (ORDER BY k, x, t)",
        "ntile(2) OVER (ORDER BY k, x, t)", "lag(x) OVER (PARTITION BY k ORDER BY x, t)",
        "lead(x, 2, 7) OVER (ORDER BY k, x, t)", "nth_value(x, 2) OVER (PARTITION BY k ORDER BY x, t)",
        "100 * cume_dist() OVER (PARTITION BY k ORDER BY x)", "100 * percent_rank() OVER (ORDER BY x)",
        "lag(x IGNORE NULLS) OVER (ORDER BY k, x, t)", "last_value(x) OVER (PARTITION BY k ORDER BY x, t)",
        "first_value(x) OVER (PARTITION BY k ORDER BY x DESC, t)",
        "count(*) FILTER (WHERE x > 1) OVER (PARTITION BY k)",
        *(f"{function} {over}" for over in OVER for function in ("sum(x)", "count(x)", "max(x)", "min(x)")),
        *(f"{function} {over}" for over in OVER[:3] for function in ("rank()", "dense_rank()", "avg(x)")),
    ],
}  # fmt: skip
"""What stands in the text of a relation, by the word in its place."""


def relation(chance: Random, depth: int) -> Term:
    """Return a random relation."""
    if depth <= 0 or chance.random() < 0.1:
        return Term("relation", chance.choice(LEAVES))
    form = chance.choice(RELATIONS)
    for blank, values in BLANKS.items():
        while blank in form:
            form = form.replace(blank, chance.choice(values), 1)
    count = 2 if "{1}" in form else form.count("{}")
    return Term("relation", form, tuple(relation(chance, depth - 1) for _ in range(count)))
