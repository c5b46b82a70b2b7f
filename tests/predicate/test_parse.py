from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.errors import SchemaError, SpecError
from juncture.predicate.language.parse import parse, parse_expression
from juncture.predicate.language.sql import describe, to_sql
from predicate import naive
from predicate.strategies import SCHEMA, predicates, rows

LEFT = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.int64(),
        "f": pa.float64(),
        "d": pa.decimal128(10, 2),
        "t": pa.timestamp("us"),
        "z": pa.timestamp("us", tz="UTC"),
        "day": pa.date32(),
        "s": pa.string(),
        "ok": pa.bool_(),
        "raw": pa.binary(),
        "length": pa.duration("ms"),
        "items": pa.list_(pa.int8()),
        "case": pa.int8(),
        "Case": pa.int8(),
        "two words": pa.int16(),
        "only_left": pa.int8(),
    }
)
RIGHT = LEFT.remove(LEFT.get_field_index("only_left"))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("l.a > r.b - 3 and L.A < r.b + 10", "l.a > r.b - 3 AND l.a < r.b + 10"),
        ("l.a == r.a", "l.a = r.a"),
        ("l.a != r.a", "l.a <> r.a"),
        ("l.a <=> r.a", "l.a <=> r.a"),
        ("l.a is distinct from r.a", "NOT (l.a <=> r.a)"),
        ("only_left > 3", "l.only_left > 3"),
        ("l.`two words` > 3", "l.`two words` > 3"),
        ("l.case = r.Case", "l.`case` = r.`Case`"),
        ("l.a between 1 and 5 and l.b not between 2 and 3", "l.a >= 1 AND l.a <= 5 AND NOT (l.b >= 2 AND l.b <= 3)"),
        ("l.a in (1, 2, null)", "l.a IN (1, 2, CAST(NULL AS INT))"),
        ("l.a in (null, 1, 2, null, 3 + 4, 5, 6)", "l.a IN (1, 2, 5, 7, 6, CAST(NULL AS INT))"),
        ("l.a not in (1, r.a)", "NOT (l.a = 1 OR l.a = r.a)"),
        ("l.f in (1, 2.5)", "l.f IN (1.0D, 2.5D)"),
        ("l.a is null or l.a is not null", "l.a IS NULL OR l.a IS NOT NULL"),
        ("l.ok is true and r.ok is not false", "l.ok <=> TRUE AND NOT (r.ok <=> FALSE)"),
        ("(l.a + 1) * 2 > l.b - (r.b - 1)", "(l.a + 1) * 2 > l.b - (r.b - 1)"),
        ("-l.a < - -3 and l.a > -3", "-l.a < 3 AND l.a > -3"),
        ("l.f / 2 > 1e3", "l.f / 2.0D > 1000.0D"),
        (
            "l.f > 0.1 and l.d > 0.10 and l.d > .5 and l.d > 12BD",
            "l.f > 0.1D AND l.d > 0.10 AND l.d > 0.5 AND l.d > 12BD",
        ),
        ("l.b > 99999999999999999999", "l.b > 99999999999999999999BD"),
        ("l.b > 5L and l.b > 3000000000", "l.b > 5L AND l.b > 3000000000"),
        ("l.d > cast(1.5 as decimal(10, 2))", "l.d > CAST(1.50 AS DECIMAL(10, 2))"),
        ("l.s = 'it\\'s \\\\ x'", "l.s = 'it\\'s \\\\ x'"),
        ("l.raw = X'00ff'", "l.raw = X'00FF'"),
        ("l.t > '2024-01-01'", "l.t > TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
        ("l.t > timestamp '2024-01-01 10:00:00.5'", "l.t > TIMESTAMP_NTZ '2024-01-01 10:00:00.5'"),
        ("l.t > '2024-01-01 00:00:00.123456789'", "l.t > TIMESTAMP_NTZ '2024-01-01 00:00:00.123456789'"),
        ("l.z > '2024-01-01T02:00:00+02:00'", "l.z > TIMESTAMP '2024-01-01 00:00:00Z'"),
        (
            "l.day = date '2024-02-29' and l.day > '2024-01-01'",
            "l.day = DATE '2024-02-29' AND l.day > DATE '2024-01-01'",
        ),
        ("l.day + interval 2 days > r.day - 1", "l.day + 2 > r.day - 1"),
        ("l.day - r.day < interval 3 days", "l.day - r.day < INTERVAL '3 days'"),
        ("l.t - interval 1 day 2 hours > r.t", "l.t - INTERVAL '1 day 2 hours' > r.t"),
        ("l.t > r.t - interval '1:30' hour to minute", "l.t > r.t - INTERVAL '1 hour 30 minutes'"),
        ("l.length * 2 < 3 * interval '1.5' second", "l.length * 2 < INTERVAL '4.5 seconds'"),
        (
            "timestamp '2024-01-01' + interval 1 day < l.t",
            "TIMESTAMP_NTZ '2024-01-01 00:00:00' + INTERVAL '1 day' < l.t",
        ),
        (
            "abs(l.a) > greatest(l.b, r.b, 3) and least(l.f, 1) < 0",
            "abs(l.a) > greatest(l.b, r.b, 3L) AND least(l.f, 1.0D) < 0.0D",
        ),
        ("cast(l.f as int) = try_cast(r.d as bigint)", "CAST(l.f AS INT) = CAST(r.d AS BIGINT)"),
        ("l.a = null", "l.a = CAST(NULL AS INT)"),
        ("l.f = cast('nan' as double)", "l.f = CAST('NaN' AS DOUBLE)"),
        ("null", "CAST(NULL AS BOOLEAN)"),
        ("true or l.ok", "TRUE OR l.ok"),
    ],
)
def test_what_is_read(text, written):
    node = parse(text, LEFT, RIGHT)
    assert to_sql(node) == written
    assert parse(written, LEFT, RIGHT) == node


def test_names_of_tables_and_a_time_zone():
    node = parse("Orders.a > items.b AND only_left = 1", LEFT, RIGHT, names=("orders", "items"))
    assert to_sql(node, names=("orders", "items")) == "orders.a > items.b AND orders.only_left = 1"
    zoned = parse("l.z > '2024-07-01 12:00:00'", LEFT, RIGHT, time_zone="Europe/Berlin")
    assert to_sql(zoned) == "l.z > TIMESTAMP '2024-07-01 10:00:00Z'"
    with pytest.raises(SpecError, match="gives both tables the same name"):
        parse("a = 1", LEFT, RIGHT, names=("x", "X"))


@pytest.mark.parametrize(
    ("text", "error", "said", "place"),
    [
        ("l.a >", SpecError, "an operand is missing", "    ^"),
        ("(l.a > 3", SpecError, "expected ')' here", "       ^"),
        ("l.a > 'x", SpecError, "a quote or comment is not closed", "       ^"),
        ("l.a > r.a r.b", SpecError, "", None),
        ("", SpecError, "The predicate is empty", None),
        (3, SpecError, "predicate=3 (int) is not a string", None),
        ("SELECT 1", SpecError, "a single condition", None),
        ("l.a > 1; l.b > 2", SpecError, "a single condition", None),
        ("foo(l.a) > 1", SpecError, "Function 'foo' is unknown. Did you mean 'floor'?", "^^^^^^^^"),
        ("l.a > 1 AND log(l.b) > 1", SpecError, "Function 'log' is unknown", "            ^^^^^^^^"),
        ("l.s rlike 'a'", SpecError, "RLIKE is not supported in predicates. Expected columns", "^^^^^^^^^^^^^"),
        ("l.s % 2 = 0", SchemaError, "STRING % INT is not defined. Expected numbers", "^^^^^^^"),
        ("l.f div 2 = 0", SchemaError, "DOUBLE div INT is not defined. Expected integers", "^^^^^^^^^"),
        ("floor(l.s) = 0", SchemaError, "floor is not defined for STRING", "^^^^^^^^^^"),
        ("floor(l.a, 1) = 0", SpecError, "floor has 2 operands, but takes 1.", "^^^^^^^^^^^^^"),
        ("round(l.f, l.a) = 0", SpecError, "round needs a constant from 0 to 38", "^^^^^^^^^^^^^^^"),
        ("l.s || l.a = 'a'", SchemaError, "|| is not defined for INT. Expected text", None),
        ("upper(l.a) = 'A'", SchemaError, "upper is not defined for INT. Expected text", "^^^^^^^^^^"),
        ("l.s like l.s", SpecError, "LIKE needs a constant pattern", "^^^^^^^^^^^^"),
        (r"l.s like 'a\\b'", SpecError, "before a character other than %, _ and", None),
        ("l.s like 'a' escape 'xy'", SpecError, "ESCAPE 'xy' is not a single character", None),
        ("case when l.a then 1 end = 1", SchemaError, "WHEN needs a boolean, but its condition is INT", None),
        ("case when l.ok then 1 else 'a' end = 1", SchemaError, "CASE has operands of types INT and STRING", None),
        ("case l.a when 1 then 2 = 1", SpecError, "expected 'END' here", None),
        ("coalesce(l.a, l.s) = 1", SchemaError, "coalesce has operands of types INT and STRING", "^^^^^^^^^^^^^^^^^^"),
        (
            "date_trunc('eon', l.t) = l.t",
            SpecError,
            "date_trunc needs a constant unit as its first operand. Expected one of",
            None,
        ),
        (
            "date_trunc('day', l.z) = l.z",
            SchemaError,
            "Expected a timestamp without a time zone",
            "^^^^^^^^^^^^^^^^^^^^^^",
        ),
        ("1 < l.a < 3", SpecError, "cannot be chained", "^^^^^^^^^^^"),
        ("l.a in (select 1)", SpecError, "IN needs a list", None),
        ("l.a between symmetric 1 and 2", SpecError, "SYMMETRIC", None),
        ("l.t > r.t - interval 1 month", SpecError, "no fixed length", None),
        ("l.t > r.t - interval 1 fortnight", SpecError, "not a unit", None),
        ("l.day > '2024-02-30'", SpecError, "is not a date", "^^^^^^^^^^^^^^^^^^^^"),
        ("l.t > 'yesterday'", SpecError, "is not a timestamp", None),
        ("l.z > '2024-01-01'", SpecError, "has no time zone", None),
        ("l.t > '2024-01-01Z'", SpecError, "without one. Remove the time zone", None),
        ("l.s.x > 3", SpecError, "a field inside a column", "^^^^^"),
        ("q.a > 3", SchemaError, "'q' is not a table of the predicate. Expected l. or r.", "^^^"),
        ("a = 1", SchemaError, "'a' is a column of both tables. Write l. or r.", "^"),
        (
            "l.onlyleft = 1",
            SchemaError,
            "'onlyleft' is not a column of the table 'l'. Did you mean 'only_left'?",
            "^^^^^^^^^^",
        ),
        ("nowhere = 1", SchemaError, "'nowhere' is not a column of either table", "^^^^^^^"),
        ("l.CASE = 1", SchemaError, "'case' and 'Case', which differ in case only", None),
        ("l.items = 3", SchemaError, "list<", None),
        ("l.a", SchemaError, "is INT, but must be a boolean", None),
        ("l.s > 5", SchemaError, "STRING and INT do not compare. Write numbers without quotes", "^^^^^^^"),
        ("l.t > 5", SchemaError, "TIMESTAMP_NTZ and INT do not compare", "^^^^^^^"),
        ("l.t > l.z", SchemaError, "Only one of them has a time zone", "^^^^^^^^^"),
        ("l.day > l.z", SchemaError, "DATE and TIMESTAMP do not compare", "^^^^^^^^^^^"),
        ("l.length > 5", SchemaError, "A number has no unit", None),
        ("l.t - 3 > r.t", SchemaError, "A number has no unit", "^^^^^^^"),
        ("l.t + r.t > r.t", SchemaError, "TIMESTAMP_NTZ + TIMESTAMP_NTZ is not defined", None),
        ("l.day + interval 1 hour > r.day", SchemaError, "Add whole days", None),
        ("l.s + 1 > 2", SchemaError, "STRING + INT is not defined", None),
        ("l.length / 2 > r.length", SchemaError, "multiplied by an integer only", None),
        ("l.a and l.ok", SchemaError, "AND needs a boolean", None),
        ("abs(l.s) > 1", SchemaError, "abs is not defined for STRING", None),
        ("least(l.a, l.s) > 1", SchemaError, "least has operands of types INT and STRING", None),
        ("cast(l.f as timestamp) > l.t", SchemaError, "CAST from DOUBLE to TIMESTAMP is not supported", None),
        ("cast(l.z as date) > l.day", SchemaError, "session's time zone", None),
        ("cast(l.a as map<int, int>) = 1", SpecError, "CAST to", None),
        ("cast('x' as int) = l.a", SchemaError, "is not a number", None),
    ],
)
def test_what_is_refused_and_where(text, error, said, place):
    with pytest.raises(error) as caught:
        parse(text, LEFT, RIGHT)
    message = str(caught.value)
    assert said in message
    if place is not None:
        assert message.splitlines()[-1] == f"    {place}"


def test_the_place_is_shown_in_its_line():
    with pytest.raises(SchemaError) as caught:
        parse("l.a > 1\n  AND l.b = r.q\n  AND l.f > 2", LEFT, RIGHT)
    assert str(caught.value).splitlines()[-2:] == ["      AND l.b = r.q", "                ^^^"]


def test_deep_nesting_is_an_error_and_long_chains_are_not():
    with pytest.raises(SpecError, match="nested more than 100 levels deep"):
        parse("(" * 5_000 + "l.a = 1" + ")" * 5_000, LEFT, RIGHT)
    chain = " AND ".join(f"l.a <> {value}" for value in range(3_000))
    assert to_sql(parse(chain, LEFT, RIGHT)) == chain


def test_long_lists_are_shortened_for_readers():
    listed = ", ".join(map(str, range(10_000)))
    assert describe(parse(f"l.a = r.a AND l.a IN ({listed})", LEFT, RIGHT)).endswith("168, 169, 170, … 9,829 more)")


def test_types_follow_spark():
    def kind(text: str) -> str:
        return str(parse_expression(text, LEFT, RIGHT).type)

    assert kind("l.a + l.a") == "BIGINT"
    assert kind("l.a / l.a") == "DOUBLE"
    assert kind("l.d + 1") == "DECIMAL(11, 2)"
    assert kind("l.d * l.b") == "DECIMAL(31, 2)"
    assert kind("l.d / l.d") == "DECIMAL(23, 13)"
    assert kind("l.d * 1.5D") == "DOUBLE"
    assert kind("l.t - r.t") == "INTERVAL DAY TO SECOND"


@settings(max_examples=8 * settings.default.max_examples)
@given(st.data())
def test_what_is_written_reads_back_and_means_the_same(data):
    node = data.draw(predicates())
    row = data.draw(rows(node))
    try:
        text = to_sql(node)
        read = parse(text, SCHEMA, SCHEMA)
    except SpecError as error:
        # Dates beyond the calendar, and seconds beyond 64 bits of microseconds, cannot be written.
        assert "epoch" in text or "is too far" in str(error)
        return
    assert naive.evaluate(read, row) == naive.evaluate(node, row)
    assert parse(to_sql(read), SCHEMA, SCHEMA) == read
