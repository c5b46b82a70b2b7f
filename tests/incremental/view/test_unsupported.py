"""What a view cannot keep up to date is an error that shows the place."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import SchemaError, SpecError
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
    "SELECT x FROM a ORDER BY k": ("an order by what is no column of the result", "k"),
    "SELECT x FROM a LIMIT x": ("LIMIT of other than a number", "x"),
    "SELECT soundex(t) FROM a": ("the function SOUNDEX", "soundex"),
    "SELECT nosuch(t) FROM a": ("the function nosuch", "nosuch"),
    "SELECT f % 2 FROM a": ("% of numbers that are no integers", "f"),
    "SELECT t LIKE t FROM a": ("LIKE with a pattern that is no constant", "t"),
    "SELECT CAST(f AS VARCHAR) FROM a": ("a cast of double to text", "f"),
    "SELECT CAST(x AS UUID) FROM a": ("a cast to UUID", "x"),
    "SELECT 1": ("a SELECT without FROM", "1"),
    "SELECT x FROM (VALUES (1)) v(x)": ("VALUES in FROM", "v"),
}

WRONG = {
    "SELECT nosuch FROM a": ("nosuch", "nosuch"),
    "SELECT a.x FROM a, b WHERE a.nosuch = b.k": ("nosuch", "nosuch"),
    "SELECT x FROM nosuch": ("nosuch", None),
    "SELECT x + t FROM a": ("a number is needed", "t"),
    "SELECT x FROM a WHERE t": ("a condition is true or false", "t"),
    "SELECT x FROM a WHERE t > d": ("do not compare", "t"),
    "SELECT sum(t) FROM a": ("is of numbers", "sum"),
    "SELECT k, x FROM a GROUP BY k": ("neither in GROUP BY nor in an aggregate", "x"),
    "SELECT x FROM a WHERE sum(x) > 1": ("use HAVING", "sum"),
    "SELECT t FROM a UNION ALL SELECT y FROM b": ("in one part and", None),
    "SELECT k, t FROM a UNION ALL SELECT y FROM b": ("different numbers of columns", None),
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
    assert f"A view cannot keep {what} up to date" in message
    assert marked(message).lower().startswith(word)


@pytest.mark.parametrize("sql", WRONG)
def test_what_is_wrong(sql):
    what, word = WRONG[sql]
    with pytest.raises(SpecError) as raised:
        jn.view(None, sql, sources=SCHEMAS)
    assert what in str(raised.value)
    if word is not None:
        assert marked(str(raised.value)).lower() == word


def test_an_outer_join_on_a_value_of_both_tables():
    with pytest.raises(SpecError, match=r"comparisons of a value of one table .* is none: .*\(x \+ y\)"):
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
        "A view cannot keep the aggregate MEDIAN up to date. Expected COUNT, SUM, AVG, MIN or MAX. It is asked for "
        "here (line 2, column 8).\n"
        "  2 |        median(x)\n"
        "             ^^^^^^"
    )


def test_sources():
    with pytest.raises(SpecError, match="no SQL"):
        jn.view(None, None, sources=SCHEMAS)
    with pytest.raises(SpecError, match="names no tables"):
        jn.view(None, "SELECT 1", sources={})
    with pytest.raises(SpecError, match="is no schema"):
        jn.view(None, "SELECT x FROM a", sources={"a": "x"})
    with pytest.raises(SpecError, match="differ in small and capital letters"):
        jn.view(None, "SELECT x FROM a", sources={"a": SCHEMAS["a"], "A": SCHEMAS["a"]})
    with pytest.raises(SchemaError, match="'x' twice"):
        jn.view(None, "SELECT x FROM a", sources={"a": pa.schema({"x": pa.int8(), "X": pa.int8()})})
    view = jn.view(None, "SELECT x FROM a", sources=SCHEMAS)
    with pytest.raises(SpecError, match="no source 'aa'"):
        view.apply(aa=pa.table({"x": [1]}))
