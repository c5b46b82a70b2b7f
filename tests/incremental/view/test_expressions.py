"""Values of a view are DuckDB's, to the last null, NaN, digit and space; where DuckDB raises, an epoch fails."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

import juncture as jn
from support.viewing import assert_as_duckdb


def decimals(texts, precision, scale):
    return pa.array([text and Decimal(text) for text in texts], pa.decimal128(precision, scale))


NINES = "9" * 36
SMALL = ["9999.99", None, "0.00", "-0.01", "2.50", "-2.55", "12.35", "-9999.99"]
LARGE = [f"{NINES}.99", None, "0.00", "-0.01", "2.50", "-2.55", "12.35", f"-{NINES}.99"]
FINE = ["0.1234567890123456789", None, "-9.5", "9.99", "0", "1.1", "-0.7", "2.5"]
DAYS = [0, None, 18_000, -1, 19_782, 365, 11_016, -25_567]
TIMES = [0, None, 18_000 * 86_400_000_000 + 1, -1, 19_783 * 86_400_000_000 - 1, 365, 11_016, -25_567]
VALUES = pa.table(
    {
        "k": pa.array([1, 1, 2, None, 3, 2, 0, -5], pa.int32()),
        "x": pa.array([5, -5, None, 0, 15, 25, -15, 2**62]),
        "y": pa.array([0, 2, 3, None, -3, 0, 7, 1]),
        "t": ["a", "", None, "Ab\t", " x ", "a\\b", "é%_", "12"],
        "u": [None, "b", None, "", "a%", "\n q", "\u00a0ß ", "a"],
        "d": decimals(SMALL, 6, 2),
        "e": decimals(LARGE, 38, 2),
        "h": decimals(FINE, 38, 37),
        "f": [0.0, -0.0, math.nan, None, math.inf, -math.inf, 2.5, -1e300],
        "g": [math.nan, 1.0, -0.0, None, 0.0, 0.15, -2.5, 1e16],
        "r": pa.array([0.1, None, -0.0, math.nan, math.inf, 16_777_216.0, 2.5, -1e30], pa.float32()),
        "day": pa.array(DAYS, pa.int32()).cast(pa.date32()),
        "ts": pa.array(TIMES).cast(pa.timestamp("us")),
        "b": [True, False, None, True, False, None, True, False],
    }
)

EQUAL = {
    "like": [
        "t NOT LIKE 'a%'", "t NOT ILIKE 'a%'", "NOT t LIKE 'a%'", r"t LIKE 'a\%'", r"t LIKE 'a\b'", r"t LIKE '%\b'",
        r"t NOT LIKE '%\_'", r"t ILIKE 'A\B'", "t LIKE '_'", "t LIKE ''", "u LIKE '%q'", "u ILIKE '%ẞ_'",
        "t LIKE '%%'",
    ],
    "text": [
        "concat(t, u)", "concat(t)", "concat(t, NULL)", "concat(NULL, NULL)", "t || u", "trim(t)", "trim(u)",
        "length(u)", "upper(u)", "lower(upper(u))", "substring(t, 1, 2)", "substring(t, 0, 2)", "substring(t, 2)",
        "substring(t, NULL)",
        "substring(t, 2, NULL)", "greatest(t, u)",
    ],
    "decimals": [
        "round(d, 1)", "round(d)", "round(d, -1)", "round(d, -4)", "round(d, 5)", "ceil(d)", "floor(d)", "round(e, 1)",
        "round(e, -10)", "ceil(e)", "floor(e)", "round(h, 2)", "CAST(d AS DECIMAL(10, 1))", "CAST(d AS DECIMAL(5, 1))",
        "CAST(d AS INTEGER)", "CAST(d AS TINYINT)", "CAST(e AS BIGINT)", "CAST(e AS DECIMAL(38, 1))",
        "CAST(e AS DECIMAL(38, 3))", "CAST(h AS VARCHAR)", "CAST(CAST(d / 1e5 AS DECIMAL(9, 9)) AS VARCHAR)",
        "CAST(CAST(k AS DECIMAL(38, 20)) AS VARCHAR)",
        "CAST(e AS DOUBLE)", "CAST(h AS DOUBLE)", "CAST(h AS FLOAT)", "h / 3", "d / 3", "CAST(g AS DECIMAL(18, 2))",
        "CASE WHEN g < 1e9 THEN CAST(g AS DECIMAL(4, 1)) END", "coalesce(e, d * 1.00055)", "greatest(h, d)",
        "coalesce(h, k)", "least(h, d, 9999.995 + k)", "CASE WHEN k > 1 THEN d * 1.00055 ELSE e END",
        "CAST(IF(b, -h, ROUND(0.0)) AS VARCHAR)", "d * d", "d + x", "e + d", "h > k", "d = 2.5",
        "e - nullif(h, h)", "CAST(IF(b, 1.5 * 1.5, h) AS VARCHAR)", "CAST(IF(b, d * 2, h) AS VARCHAR)",
        "0.1234567890123456789012345678901234567890 + k",
    ],
    "lambdas": [
        "CAST(list_transform([x, y], lambda a, i: a + k * i) AS VARCHAR)",
        "CAST(list_filter([x, y, k], lambda a: a > y) AS VARCHAR)",
        "list_reduce([k, 2, 3], lambda a, b: a - b)", "list_reduce([k, 2, 3], lambda a, b: a * b, 7)",
        "list_reduce([k, 2, 3], lambda a, b, i: a - b * i, k)", "CAST([a + k FOR a IN [1, k] IF a > 0] AS VARCHAR)",
        "CAST(list_transform([k, 1], lambda a: list_transform([a, y], lambda b, i: a - b + k * i)) AS VARCHAR)",
        "CAST(list_transform([k], lambda a: list_transform([2], lambda b: [c FOR c IN [y] IF c > a + b])) AS VARCHAR)",
        "len(list_filter([t, u], lambda a: a LIKE '%a%'))",
    ],
    "integers": [
        "round(x, -1)", "round(x, 1)", "round(x, -18)", "round(x, -19)", "round(k, -1)", "round(15, -1)", "ceil(x)",
        "floor(k)", "x / y", "sqrt(x)", "x = g", "x > f", "x BETWEEN 1 AND f", "x + 9223372036854775807",
        "9007199254740993 BETWEEN x * 0 + 9007199254740993 AND 9007199254740992::DOUBLE",
    ],
    "floats": [
        "f IN (0.0)", "f IN (0.0, NULL)", "g IN (0, 1)", "g NOT IN (0, 1)", "f IN ('NaN'::DOUBLE)", "greatest(f, g)",
        "least(f, g)", "greatest(f, 1)", "least('NaN'::DOUBLE, f)", "round(f)", "round(g, 1)", "round(f, -1)",
        "round(f, 400)", "round(g, -400)", "round(g, NULL)", "CAST(f AS FLOAT)", "CAST(g AS FLOAT)", "nullif(f, 0)",
        "nullif(g, 'NaN'::DOUBLE)", "f IS DISTINCT FROM g", "CASE f WHEN 'NaN'::DOUBLE THEN 1 WHEN 0 THEN 2 END",
        "-g IN ('NaN'::DOUBLE)", "sqrt(-k) IN ('NaN'::DOUBLE)",
    ],
    "narrow floats": [
        "r + 1", "r + 0.1", "r * x", "r + f", "r = 0.1", "r = 0.1::DOUBLE", "r / 3", "r / f", "round(r, 1)", "sqrt(r)",
        "greatest(r, d)", "coalesce(r, f)", "r IN (0.1, 16777217)", "x = r",
    ],
    "branches": [
        "CASE WHEN y <> 0 THEN x // y END", "CASE WHEN y = 0 THEN 0 ELSE x % y END", "IF(y <> 0, x // y, -1)",
        "CASE WHEN b THEN x WHEN t = '12' THEN CAST(t AS INTEGER) ELSE k END",
        "CASE WHEN NOT b THEN x WHEN y < -9 THEN CAST('it''s' AS TINYINT) END", "IF(x > y, 1, CAST('a' AS INTEGER))",
        "CASE t WHEN '12' THEN CAST(t AS INTEGER) END", "abs(CASE WHEN t = '12' THEN CAST(t AS INTEGER) END)",
        "COALESCE(CASE WHEN t = '12' THEN 1 END, CASE WHEN t <> '12' OR t IS NULL THEN 2 END, CAST(t AS INTEGER))",
        "CASE WHEN y <> 0 AND x // y > 1 THEN 1 WHEN y = 0 OR x % y = 0 THEN 2 END", "x // y", "CAST(t AS INTEGER)",
    ],
    "times": [
        "extract(hour FROM day)", "extract(week FROM day)", "extract(second FROM ts)", "extract(doy FROM ts)",
        "extract(quarter FROM ts)", "date_trunc('week', day)", "date_trunc('week', ts)", "date_trunc('month', ts)",
        "date_trunc('second', ts)", "ts + INTERVAL '1.5' SECOND", "day - INTERVAL '-1' DAY",
        "greatest(ts, ts) - INTERVAL '3' WEEK", "day + INTERVAL 2 WEEK", "day + k", "day - day",
        "DATE '9999-12-31' + k - day", "day - 2147483647", "DATE '1970-01-01' + 2147483646 - day",
        "CAST(day AS TIMESTAMP)", "CAST(ts AS DATE)", "CAST(day AS VARCHAR)",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "expression", [pytest.param(each, id=f"{kind}: {each}") for kind, several in EQUAL.items() for each in several]
)
def test_a_value(expression):
    assert_as_duckdb(f"SELECT {expression} AS v FROM a", {"a": VALUES})


@pytest.mark.parametrize(
    "condition",
    [
        "t = '12' AND CAST(t AS INTEGER) = 12",
        "CAST(t AS INTEGER) = 12 AND t = '12'",
        "t <> '12' OR CAST(t AS INTEGER) = 12",
        "b AND t = '12' AND CAST(t AS INTEGER) = 12",
        "y <> 0 AND x // y > 1",
        "f NOT IN (0.0)",
    ],
)
def test_a_condition(condition):
    assert_as_duckdb(f"SELECT x FROM a WHERE {condition}", {"a": VALUES})


def test_a_condition_of_what_a_subquery_filters():
    sql = "SELECT x FROM (SELECT x, t FROM a WHERE t = '12') WHERE CAST(t AS INTEGER) = 12"
    assert_as_duckdb(sql, {"a": VALUES})


def test_a_row_that_another_branch_is_for_does_not_block_the_view():
    view = jn.view(
        None,
        "SELECT sum(CASE WHEN y <> 0 THEN x // y END) AS s FROM a",
        sources={"a": pa.schema({"x": pa.int64(), "y": pa.int64()})},
    )
    for x, y in ((6, 2), (1, 0), (8, 2)):
        view.apply(a=pa.table({"x": [x], "y": [y], "_weight": [1]}))
    assert view.result().to_pylist() == [{"s": 7}]


def test_a_quotient_by_zeros_of_two_signs():
    # A row with -0.0 equals one with 0.0, and each may be deleted for the other.
    view = jn.view(None, "SELECT 1e0 / f AS v FROM a", sources={"a": pa.schema({"f": pa.float64()})})
    view.apply(a=pa.table({"f": [0.0, -0.0], "_weight": [1, 1]}))
    view.apply(a=pa.table({"f": [-0.0], "_weight": [-1]}))
    assert view.result().to_pylist() == [{"v": math.inf}]
