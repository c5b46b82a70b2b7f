"""What a view cannot keep up to date is an error that shows the place."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, SchemaError, SpecError
from support.viewing import SCHEMAS, Viewed, check

REFUSED = {
    "WITH RECURSIVE r AS (SELECT x FROM a UNION ALL SELECT x FROM r) SELECT x FROM r": ("recursive queries", None),
    "SELECT k FROM a ORDER BY k LIMIT 50%": ("LIMIT of a percentage, only of a number of rows", None),
    "SELECT k FROM a ORDER BY k LIMIT 50 PERCENT": ("LIMIT of a percentage, only of a number of rows", None),
    "SELECT k FROM a LIMIT (SELECT 3)": ("LIMIT of an expression or subquery, only", None),
    "SELECT k FROM a TABLESAMPLE 10%": ("samples", None),
    "SELECT k FROM a USING SAMPLE 3": ("samples", None),
    "SELECT rowid FROM a": ("row numbers", None),
    "SELECT x + 1000000000000000000000000000000000000000 FROM a": ("a constant of a type", None),
    "SELECT x, now() FROM a": ("the function now, whose value depends on more than its arguments", "now"),
    "SELECT x FROM a WHERE random() < x": ("the function random, whose value depends on", "random"),
    "SELECT x FROM a WHERE k = (SELECT max(range) FROM range(3))": ("the table function range", None),
    "SELECT median(x + random()) FROM a": ("the function random, whose value depends on", "random"),
    "SELECT lag(now()) OVER (ORDER BY x) FROM a": ("the function now, whose value depends on", "now"),
    "SELECT unnest([random()]) FROM a": ("the function random, whose value depends on", "random"),
    "SELECT DISTINCT ON (k) k, x FROM a ORDER BY k, random()": ("the function random, whose value", "random"),
    "SELECT x, localtimestamp FROM a": ("the function current_localtimestamp, whose value", "localtimestamp"),
    "SELECT x FROM a WHERE localtime > TIME '12:00'": ("the function current_localtime, whose value", "localtime"),
    "SELECT epoch(age(make_timestamp(x))) FROM a": ("the function age of one argument, whose value depends", "age"),
    "SELECT reservoir_quantile(x, 0.5) FROM a": ("the function reservoir_quantile, whose value depends", None),
    "SELECT x::BIT FROM a": ("values of type BIT", "::"),
    "FROM duckdb_settings()": ("the table function duckdb_settings", None),
}

WRONG = {
    "SELECT nosuch FROM a": ("JN-SQL-NAME", '"nosuch" not found in FROM clause. There are', "nosuch"),
    "SELECT a.x FROM a, b WHERE a.nosuch = b.k": ("JN-SQL-NAME", 'not have a column named "nosuch"', "a.nosuch"),
    "SELECT x FROM nosuch": ("JN-SQL-NAME", "nosuch does not exist", "nosuch"),
    "SELECT k FROM nosuch.b": ("JN-SQL-NAME", '"nosuch.b" does not exist', "nosuch.b"),
    "SELECT nosuch(t) FROM a": ("JN-SQL-NAME", "nosuch does not exist", "nosuch(t)"),
    "SELECT a.x FROM a, b ORDER BY abs(k) LIMIT 3": ("JN-SQL-NAME", "Ambiguous reference", "k"),
    "SELECT x FROM a ORDER BY 2": ("JN-SQL-NAME", "ORDER term out of range", "2"),
    "SELECT k FROM a ORDER BY 0": ("JN-SQL-NAME", "ORDER term out of range", "0"),
    "SELECT k FROM a UNION ALL SELECT k FROM b ORDER BY -1": ("JN-SQL-NAME", "ORDER term out of range", "-1"),
    "SELECT k FROM a GROUP BY 0": ("JN-SQL-NAME", "GROUP BY term out of range", None),
    "SELECT x FROM a LIMIT x": ("JN-SQL-NAME", '"x" was not found', "x"),
    "SELECT x + t FROM a": ("JN-SQL-TYPE", "argument types '+(BIGINT, VARCHAR)'", "+"),
    "SELECT x FROM a WHERE t > d": (
        "JN-SQL-TYPE",
        "Cannot compare values of type VARCHAR and type DECIMAL(6,2)",
        "t > d",
    ),
    "SELECT sum(t) FROM a": ("JN-SQL-TYPE", "argument types 'sum(VARCHAR)'", "sum(t)"),
    "SELECT substring(t, 1.5) FROM a": ("JN-SQL-TYPE", "'substring(VARCHAR, DECIMAL(2,1))'", "substring(t, 1.5)"),
    "SELECT d * d * d * d * 0.000000000000000000000000000000001 FROM a": ("JN-SQL-TYPE", "Needed scale 41", None),
    "SELECT k FROM a LIMIT 99999999999999999999": ("JN-SQL-TYPE", "out of range for the destination type", None),
    "SELECT k, x FROM a GROUP BY k": ("JN-SQL-GROUP", 'column "x" must appear in the GROUP BY clause', "x"),
    "SELECT x FROM a WHERE sum(x) > 1": ("JN-SQL-GROUP", "WHERE clause cannot contain aggregates", "sum(x)"),
    "SELECT x FROM a HAVING x > 1": ("JN-SQL-GROUP", 'column "x" must appear in the GROUP BY clause', "x"),
    "SELECT q.p FROM b AS q(p, r, s)": ("JN-SQL-COLUMN-COUNT", "2 columns available but 3", None),
    "SELECT k, t FROM a UNION ALL SELECT y FROM b": ("JN-SQL-COLUMN-COUNT", "same number of result columns", None),
    "SELECT k FROM a ORDER BY 1.5": ("JN-SQL-UNSUPPORTED", "ORDER BY non-integer literal has no effect", "1.5"),
    "SELECT x FRO a": ("JN-SQL-SYNTAX", 'syntax error at or near "a"', "a"),
    "SELECT k, count(*) FROM a GROUP BY k WITH ROLLUP": ("JN-SQL-SYNTAX", "syntax error", "with"),
    "SELECT 'é', x FRO a": ("JN-SQL-SYNTAX", 'syntax error at or near "a"', "a"),
    "SELECT x FROM a; SELECT y FROM b": ("JN-SQL-SYNTAX", "2 statements", None),
    "SELECT x FROM read_csv('/etc/passwd')": ("JN-SQL-UNSUPPORTED", "file system operations are disabled", None),
    "SELECT x FROM '/etc/passwd'": ("JN-SQL-NAME", "does not exist", None),
    "DROP TABLE a": ("JN-SQL-SYNTAX", "one query", None),
    "": ("JN-SQL-SYNTAX", "0 statements", None),
}

ACCEPTED = {
    "filter of an aggregate": """
        SELECT k, sum(x) FILTER (WHERE k > 1) s, count(*) FILTER (WHERE x > 1) n FROM a GROUP BY k""",
    "exists": "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b)",
    "a scalar": "SELECT x, (SELECT max(y) FROM b) AS m FROM a WHERE x > (SELECT min(z) FROM c)",
    "a scalar in a join": "SELECT a.x FROM a JOIN b ON a.k = (SELECT max(k) FROM b)",
    "remainders": "SELECT f % 2 AS r, d % 0.3 AS q, x % 3 AS p FROM a",
    "patterns": "SELECT t LIKE t AS l, t LIKE 'a!%' ESCAPE '!' AS e, t GLOB 'a*' AS g FROM a",
    "regular expressions": "SELECT regexp_matches(t, '^[ab]+$') AS m, regexp_replace(t, 'a', 'c') AS r FROM a",
    "casts": "SELECT CAST(f + 0 AS VARCHAR) AS f, CAST(x AS VARCHAR) AS x, TRY_CAST(t AS INTEGER) AS i FROM a",
    "texts": "SELECT ltrim(t) AS l, trim(t, 'a') AS t, md5(t) AS m, t[1:1] AS s, concat(t, x) AS c FROM a",
    "numbers": "SELECT exp(k) AS e, round(d, 1) AS r, sign(x) AS s, bit_count(x) AS b, x << 2 AS w FROM a",
    "lists": "SELECT list_sum([x, k]) AS s, len([x, NULL]) AS n, list_contains([1, 2], x) AS c, [x, k][1] AS f FROM a",
    "structs": "SELECT {'p': x, 'q': t}.q AS q FROM a",
    "dates": "SELECT DATE '2024-01-31' + to_months(k) AS m, monthname(DATE '2024-01-01' + to_months(k)) AS n FROM a",
    "first rows": "SELECT k FROM a ORDER BY k FETCH FIRST 3 ROWS ONLY",
    "an offset": "SELECT k FROM a ORDER BY k LIMIT 3 OFFSET 1 + 1",
    "order by all": "SELECT k FROM a ORDER BY ALL",
    "order in a language": "SELECT t FROM a ORDER BY t COLLATE NOCASE, t LIMIT 3",
    "union by name": "SELECT k, x AS y FROM a UNION BY NAME SELECT y, k FROM b",
    "union of texts and numbers": "SELECT t FROM a UNION ALL SELECT y FROM b",
    "using after a comma": "SELECT a.x, b.y FROM a, b JOIN c USING (k)",
    "a join in parentheses": "SELECT a.x, c.z FROM a JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k",
    "no table": "SELECT 1 AS one, 'a' || 'b' AS t",
    "values": "SELECT x, p FROM a JOIN (VALUES (1, 'p'), (2, 'q')) v(n, p) ON x = n",
    "a condition of a number": "SELECT x FROM a WHERE k",
    "a wide sum": "SELECT sum(x) * 2 - count(*) AS s, sum(x) / 3 AS q, sum(k) % 2 AS r FROM a",
    "groups by constants": "SELECT 'a' AS c, count(*) AS n FROM a GROUP BY 1",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_duckdb_binds_is_kept(name):
    check(Viewed(ACCEPTED[name], 1, None, epochs=5))


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_kept(sql):
    what, word = REFUSED[sql]
    with pytest.raises(SpecError) as raised:
        jn.view(None, sql, sources=SCHEMAS)
    message = str(raised.value)
    assert f"Views do not support {what}" in message
    assert raised.value.name == "JN-SQL-UNSUPPORTED"
    if word is not None:
        assert marked(message).lower().startswith(word)


@pytest.mark.parametrize("sql", WRONG)
def test_what_is_wrong(sql):
    name, what, word = WRONG[sql]
    with pytest.raises(SpecError) as raised:
        jn.view(None, sql, sources=SCHEMAS)
    assert what in str(raised.value)
    assert raised.value.name == name
    if word is not None:
        assert marked(str(raised.value)).lower() == word


def test_values_that_a_join_cannot_compare():
    sources = {"a": pa.schema({"e": pa.decimal128(38, 2)}), "c": SCHEMAS["c"]}
    sql = "SELECT s.s, c.z FROM (SELECT sum(e) AS s FROM a) s ASOF JOIN c ON s.s >= c.z"
    view = jn.view(None, sql, sources=sources)
    with pytest.raises(DataError, match=r"'sum\(e\)' of the left side has a value that does not fit a 64-bit code"):
        view.apply(a=pa.table({"e": [Decimal("9" * 36)]}, schema=sources["a"]))


@pytest.mark.parametrize(
    ("join", "data_type", "message"),
    [
        ("ASOF", pa.bool_(), "The left on column 'v' is of type bool"),
        ("LEFT", pa.time64("us"), "The left column 'v' is of type time64"),
    ],
)
def test_types_that_a_join_cannot_compare(join, data_type, message):
    with pytest.raises(SchemaError, match=message) as raised:
        jn.view(None, f"SELECT a.v FROM a {join} JOIN a b ON a.v >= b.v", sources={"a": pa.schema({"v": data_type})})
    assert "l0" not in str(raised.value)


def marked(message: str) -> str:
    """Return what of the query a message marks."""
    *_, text, mark = message.split("\n")
    first = mark.index("^")
    return text[first : first + mark.count("^")]


def test_the_place_is_shown():
    with pytest.raises(SpecError) as raised:
        jn.view(None, "SELECT k,\n       random()\nFROM a GROUP BY k", sources=SCHEMAS)
    assert str(raised.value) == (
        "[JN-SQL-UNSUPPORTED] sql= at line 2, column 8: Views do not support the function random, whose value depends "
        "on more than its arguments.\n"
        "  2 |        random()\n"
        "             ^^^^^^^^"
    )


def test_sources():
    with pytest.raises(SpecError, match="is not SQL"):
        jn.view(None, None, sources=SCHEMAS)
    with pytest.raises(SpecError, match="not a mapping of names to schemas"):
        jn.view(None, "SELECT 1", sources={})
    with pytest.raises(SpecError, match=r"schema='x' .*Expected a pyarrow\.Schema"):
        jn.view(None, "SELECT x FROM a", sources={"a": "x"})
    with pytest.raises(SpecError, match="differ only in case"):
        jn.view(None, "SELECT x FROM a", sources={"a": SCHEMAS["a"], "A": SCHEMAS["a"]})
    with pytest.raises(SchemaError, match="column 'x' twice"):
        jn.view(None, "SELECT x FROM a", sources={"a": pa.schema({"x": pa.int8(), "X": pa.int8()})})
    view = jn.view(None, "SELECT x FROM a", sources=SCHEMAS)
    with pytest.raises(SpecError, match=r"Source 'aa' does not exist\. Did you mean 'a'"):
        view.apply(aa=pa.table({"x": [1]}))
