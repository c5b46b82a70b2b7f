"""What a view cannot keep up to date is an error that shows the place."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, SchemaError, SpecError
from support.viewing import SCHEMAS

REFUSED = {
    "SELECT x, sum(x) OVER (ORDER BY k) FROM a": ("window functions", "over"),
    "SELECT median(x) FROM a": ("the aggregate MEDIAN", "median"),
    "SELECT sum(x) FILTER (WHERE k > 1) FROM a": ("FILTER of an aggregate", "sum"),
    "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b)": ("EXISTS", "exists"),
    "SELECT x FROM a WHERE k IN (SELECT k FROM b)": ("IN of a subquery", "k"),
    "SELECT (SELECT max(y) FROM b) FROM a": ("subqueries within expressions", "("),
    "SELECT x FROM a INTERSECT SELECT y FROM b": ("INTERSECT", "intersect"),
    "SELECT x FROM a EXCEPT SELECT y FROM b": ("EXCEPT", "except"),
    "WITH RECURSIVE r AS (SELECT x FROM a UNION ALL SELECT x FROM r) SELECT x FROM r": (
        "recursive queries",
        "recursive",
    ),
    "SELECT DISTINCT ON (k) x FROM a": ("DISTINCT ON", "k"),
    "SELECT x FROM a SEMI JOIN b ON a.k = b.k": ("SEMI JOIN", "b"),
    "SELECT k, count(*) FROM a GROUP BY ROLLUP (k)": ("ROLLUP", "k"),
    "SELECT x FROM a ORDER BY k": ("ORDER BY a value that is not in the SELECT list", "k"),
    "SELECT x FROM a LIMIT x": ("LIMIT of other than an integer constant", "x"),
    "SELECT soundex(t) FROM a": ("the function SOUNDEX", "soundex"),
    "SELECT nosuch(t) FROM a": ("the function nosuch", "nosuch"),
    "SELECT f % 2 FROM a": ("% of numbers other than integers", "f"),
    "SELECT t LIKE t FROM a": ("LIKE with a pattern other than a constant", "t"),
    "SELECT CAST(f AS VARCHAR) FROM a": ("a cast of double to text", "f"),
    "SELECT CAST(x AS UUID) FROM a": ("a cast to UUID", "x"),
    "SELECT max(x, 2) FROM a": ("MAX(x, 2)", "x"),
    "SELECT k FROM a ORDER BY k LIMIT 50%": ("LIMIT 50 PERCENT", "50"),
    "SELECT k FROM a ORDER BY k LIMIT 50 PERCENT": ("LIMIT 50 PERCENT", "50"),
    "SELECT k FROM a FETCH FIRST 3 ROWS ONLY": ("LIMIT of other than an integer constant", "3"),
    "SELECT k FROM a LIMIT 99999999999999999999": ("LIMIT of other than an integer constant", "9"),
    "SELECT k FROM a LIMIT 3 OFFSET 1 + 1": ("OFFSET of other than an integer constant", "1"),
    "SELECT k FROM a TABLESAMPLE 10%": ("samples", "10"),
    "SELECT k FROM a USING SAMPLE 3": ("samples", "3"),
    "SELECT k FROM a AT (VERSION => 1)": ("a AT (VERSION => 1)", "a"),
    "SELECT max(x) FILTER (WHERE x > 1) FROM a": ("FILTER of an aggregate", "x"),
    "SELECT max(x IGNORE NULLS) FROM a": ("the function IgnoreNulls", "x"),
    "SELECT sum(x ORDER BY k) FROM a": ("x ORDER BY k", "x"),
    "SELECT t FROM a ORDER BY t COLLATE NOCASE LIMIT 3": ("the function COLLATE", None),
    "SELECT k FROM a ORDER BY ALL": ("ORDER BY ALL", None),
    "SELECT TRY_CAST(t AS INTEGER) FROM a": ("TRY_CAST", "t"),
    "SELECT CAST(f AS TIMESTAMP(3)) FROM a": ("a cast to TIMESTAMP(3)", "f"),
    "SELECT t LIKE 'a!%' ESCAPE '!' FROM a": ("LIKE with ESCAPE", "t"),
    "SELECT t GLOB 'a*' FROM a": ("the function Glob", "t"),
    "SELECT trim(t, 'a') FROM a": ("TRIM(t, 'a')", "t"),
    "SELECT ltrim(t) FROM a": ("LTRIM(t)", "ltrim"),
    "SELECT exp(f) FROM a": ("the function EXP", "exp"),
    "SELECT round(d, k) FROM a": ("ROUND to a number other than an integer constant", "k"),
    "SELECT substring(t, 1.5) FROM a": ("SUBSTRING with a position other than an integer constant", "1.5"),
    "SELECT x + 1000000000000000000000000000000000000000 FROM a": ("integers of more than 38 digits", "1000"),
    "SELECT d + INTERVAL '1.5' DAY FROM a": ("a step of INTERVAL '1.5' DAY", "d"),
    "SELECT x FROM a WHERE x > (SELECT max(y) FROM b)": ("subqueries within expressions", "("),
    "SELECT x FROM a WHERE x = ANY (SELECT y FROM b)": ("the function Any", "y"),
    "SELECT a.x FROM a JOIN b ON a.k = (SELECT max(k) FROM b)": ("subqueries within expressions", "("),
    "SELECT k, count(*) FROM a GROUP BY k WITH ROLLUP": ("ROLLUP", "k"),
    "SELECT k, count(*) FROM a GROUP BY GROUPING SETS ((k), ())": ("GROUPING SETS", "k"),
    "SELECT k FROM a ORDER BY 0": ("ORDER BY a constant other than a column number", "0"),
    "SELECT k FROM a ORDER BY 1.5": ("ORDER BY a constant other than a column number", "1"),
    "SELECT k FROM a ORDER BY 'a' LIMIT 2": ("ORDER BY a constant other than a column number", "'a'"),
    "SELECT k FROM a UNION ALL SELECT k FROM b ORDER BY -1": ("ORDER BY a constant other than a column number", None),
    "SELECT k FROM a GROUP BY 0": ("GROUP BY a constant other than a column number", "0"),
    "SELECT k FROM a QUALIFY row_number() OVER (ORDER BY k) = 1": ("QUALIFY", "qualify"),
    "SELECT k FROM a UNION BY NAME SELECT k FROM b": ("UNION BY NAME", "k"),
    "SELECT * FROM ((SELECT k FROM a) LIMIT 1)": ("(SELECT k FROM a) LIMIT 1", "("),
    "SELECT a.x FROM a, b JOIN c USING (k)": ("USING after a comma", "c"),
    "SELECT a.x FROM a, b RIGHT JOIN c ON a.k = c.k": (
        "a RIGHT or FULL JOIN on a column of a table before the comma",
        "a",
    ),
    "SELECT a.x FROM a JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k": ("joins in parentheses", "c"),
    "SELECT 1": ("a SELECT without FROM", "1"),
    "SELECT x FROM (VALUES (1)) v(x)": ("VALUES in FROM", "v"),
}

WRONG = {
    "SELECT nosuch FROM a": ("nosuch", "nosuch"),
    "SELECT a.x FROM a, b WHERE a.nosuch = b.k": ("nosuch", "nosuch"),
    "SELECT x FROM nosuch": ("nosuch", None),
    "SELECT x + t FROM a": ("t is of type string. Expected a number", "t"),
    "SELECT x FROM a WHERE t": ("t is of type string. Expected a condition", "t"),
    "SELECT x FROM a WHERE t > d": ("has values of types string and decimal128(6, 2), which do not compare", "t"),
    "SELECT sum(t) FROM a": ("SUM has a value of type string. Expected a number", "sum"),
    "SELECT k, x FROM a GROUP BY k": ("neither in GROUP BY nor in an aggregate", "x"),
    "SELECT x FROM a WHERE sum(x) > 1": ("Use HAVING", "sum"),
    "SELECT d * d * d * d * 0.000000000000000000000000000000001 FROM a": ("needs 41 digits after the point", None),
    "SELECT x FROM a HAVING x > 1": ("use WHERE", "x"),
    "SELECT q.p FROM b AS q(p, r, s)": ("has 3 names for 2 columns", "q"),
    "SELECT k FROM nosuch.b": ("Source 'nosuch.b' does not exist", "nosuch"),
    "SELECT a.x FROM a, b ORDER BY abs(k) LIMIT 3": ("'k'", "k"),
    "SELECT t FROM a UNION ALL SELECT y FROM b": ("is string on the left and", None),
    "SELECT k, t FROM a UNION ALL SELECT y FROM b": ("UNION has 2 columns on the left and 1 on the right", None),
    "SELECT x FROM a ORDER BY 2": ("output column: 2", "2"),
    "SELECT x FRO a": ("", None),
    "SELECT x FROM a; SELECT y FROM b": ("2 statements", None),
    "DROP TABLE a": ("one query", None),
    "": ("0 statements", None),
}


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
    what, word = WRONG[sql]
    with pytest.raises(SpecError) as raised:
        jn.view(None, sql, sources=SCHEMAS)
    assert what in str(raised.value)
    if word is not None:
        assert marked(str(raised.value)).lower() == word


def test_values_that_a_join_cannot_compare():
    sources = {"a": pa.schema({"e": pa.decimal128(38, 2)}), "c": SCHEMAS["c"]}
    sql = "SELECT s.s, c.z FROM (SELECT sum(e) AS s FROM a) s ASOF JOIN c ON s.s >= c.z"
    view = jn.view(None, sql, sources=sources)
    with pytest.raises(DataError, match=r"'sum\(e\)' of the left table has a value that does not fit a 64-bit code"):
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


def test_an_outer_join_on_a_value_of_both_tables():
    with pytest.raises(SpecError, match=r"\(x \+ y\).* Expected comparisons of a value of one table"):
        jn.view(None, "SELECT a.x FROM a LEFT JOIN b ON a.x + b.y > 3", sources=SCHEMAS)


def marked(message: str) -> str:
    """Return what of the query a message marks."""
    *_, text, mark = message.split("\n")
    first = mark.index("^")
    return text[first : first + mark.count("^")]


def test_the_place_is_shown():
    with pytest.raises(SpecError) as raised:
        jn.view(None, "SELECT k,\n       median(x)\nFROM a GROUP BY k", sources=SCHEMAS)
    assert str(raised.value) == (
        "[JN-SQL-UNSUPPORTED] sql= at line 2, column 8: Views do not support the aggregate MEDIAN. "
        "Use COUNT, SUM, AVG, MIN or MAX.\n"
        "  2 |        median(x)\n"
        "             ^^^^^^"
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
