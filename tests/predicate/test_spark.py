"""What Spark makes of predicates, beside what is computed here."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from juncture.errors import PlanError
from juncture.predicate.evaluate.evaluate import evaluate
from juncture.predicate.language.functions import UNITS
from juncture.predicate.language.parse import parse_expression
from juncture.predicate.language.sql import to_sql
from support.engines import to_spark

PRICES = ["1.55", "-99999.99", None, "0.00", "7.05"]
ROWS = pa.table(
    {
        "id": [0, 1, 2, 3, 4],
        "i": pa.array([1, -7, None, 2**31 - 1, 0], pa.int32()),
        "b": pa.array([2**63 - 1, 5, -3, -(2**63), None], pa.int64()),
        "f": [0.0, math.nan, math.inf, -2.5, None],
        "g": pa.array([0.1, math.nan, -math.inf, 3.0, 1.5], pa.float32()),
        "d": pa.array([Decimal(text) if text else None for text in PRICES], pa.decimal128(7, 2)),
        "t": [datetime(2024, 2, 29, 12), datetime(1969, 12, 31, 23, 59, 59, 999_999), None, datetime(1970, 1, 1), None],
        # The night in which the clocks of New York go forward, and the one in which they go back.
        "z": pa.array(
            [
                datetime(2026, 3, 8, 5, tzinfo=UTC),
                datetime(2026, 11, 1, 5, tzinfo=UTC),
                None,
                datetime(1970, 1, 1),
                None,
            ],
            pa.timestamp("us", "UTC"),
        ),
        "day": [date(2024, 2, 29), date(1969, 12, 31), None, date(1970, 1, 2), date(2000, 1, 1)],
        "w": [timedelta(days=1, microseconds=1), timedelta(seconds=-3), None, timedelta(0), timedelta(hours=2)],
        "s": ["a", "B", None, "", "é"],
        "ok": [True, False, None, True, False],
    }
)

EXPRESSIONS = [
    "l.i + l.i", "l.b + 1", "l.b - l.i", "l.b * l.b", "-l.b", "abs(l.b)", "-l.i * 3", "l.i / l.b", "1 / l.f", "l.i / 0",
    "l.g + l.i", "l.g * l.g", "l.f - l.f", "l.d * l.d", "l.d / 3", "l.d + l.b", "l.d / l.d", "abs(l.d) - 1.005",
    "least(l.f, l.i)", "greatest(l.f, 1)", "least(l.d, l.i)", "greatest(l.s, 'b')",
    "cast(l.f as int)", "cast(l.g as tinyint)", "cast(l.d as decimal(4, 1))", "cast(l.f as decimal(5, 1))",
    "cast(l.d as double)", "cast(l.b as float)", "cast(l.i as boolean)", "cast(l.ok as int)",
    "cast(l.t as date)", "cast(l.day as timestamp_ntz)",
    "l.t + l.w", "l.t - interval '1 day 2 hours'",
    "l.t - timestamp_ntz '2024-01-01 00:00:00.5'", "l.w + l.w", "l.w * 3",
    "l.day + l.i * 0 + 2", "l.day - date '2024-02-28' > interval 12 hours",
    "l.z + interval '1 day'", "interval 24 hours + l.z", "l.z - interval '30 days 1 second'", "l.z + l.w",
    "l.z - timestamp '2026-03-10 00:00:00Z'", "l.z - (l.z - l.w)", "l.z + l.w * 9223372036854775807",
    "l.z + (l.z - timestamp '2026-01-01 00:00:00Z') > timestamp '2026-05-13 10:00:00+00:00'",
    "least(l.z, timestamp '2026-03-08 02:30:00-05:00')", "l.z < '2026-03-08 01:00:00-05:00'",
    "l.f = l.g", "l.f > l.g", "l.f <= cast('nan' as double)", "l.f <=> l.g", "l.i = 1.0", "l.i < l.d", "l.b = l.f",
    "l.t > l.day", "l.t < '2024-02-29 12:00:00.1'", "l.s > 'a'", "l.ok > false", "l.s <=> null",
    "l.i in (1, 2, null)", "l.i not in (1, 2)", "l.i between -10 and l.b", "not (l.ok and l.i > 0)", "l.ok or l.i > 0",
    "l.ok is not true", "l.f is null or l.i = null",
    "l.i % 3", "l.i % -3", "l.b % -1", "l.b % 0", "l.b % l.i", "l.f % 2", "l.f % 0", "l.g % 1.5", "-2.5 % l.f",
    "l.d % 0.7",
    "l.d % -3", "l.d % l.d", "mod(l.d, l.i)", "l.i div 2", "l.i div -2", "l.b div -1", "l.b div 0", "l.b div l.i",
    "floor(l.f)", "ceil(l.f)", "floor(l.g)", "ceiling(l.g)", "floor(l.d)", "ceil(l.d)", "floor(l.b)", "ceil(-l.f / 3)",

    "floor(l.f * 1e300)", "ceil(l.f * -1e300)", "floor(l.b * 1.0D)", "floor(l.i * 1.000000000001D)",
    "round(l.f)", "round(l.f / 2, 1)", "round(l.g, 1)", "round(l.d)", "round(l.d, 1)", "round(l.d / 3, 2)",
    "round(l.i)",
    "round(l.f * 0.1, 2)", "round(2.675D, 2)", "round(-l.d, 1)",
    "coalesce(l.i, 5)", "coalesce(l.i, l.b)", "coalesce(l.d, l.i)", "coalesce(null, l.f, 1)", "coalesce(l.s, 'x')",
    "case when l.i > 0 then l.i when l.i is null then -1 else l.b end", "case l.s when 'a' then 1 when 'B' then 2 end",
    "if(l.ok, l.d, l.i)", "case when l.ok then 1.5 else 1 end", "case l.i when null then 1 else 2 end",
    "l.s like 'a%'", "l.s like '%'", "l.s like '_'", "l.s like ''", "l.s not like '%B%'",
    "l.s like 'x%' escape 'x'", "(l.s || '%') like '_!%' escape '!'", "startswith(l.s, '')", "startswith(l.s, 'a')",
    "startswith('abc', l.s)", "startswith(l.s, null)", "upper(l.s)", "lower(l.s)", "upper(l.s || 'ß')",
    "l.s || 'b' || l.s",
    "lower('ΑΣ' || l.s)", "l.s || null",
    *(f"date_trunc('{unit}', l.t)" for unit in UNITS), "date_trunc('MON', l.t - interval '36500 days')",
]  # fmt: skip


def same(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return one == other


@pytest.fixture(scope="module")
def answers(spark):
    from pyspark.sql import functions as sf

    frame = to_spark(spark, ROWS).alias("l")
    texts = [to_sql(parse_expression(text, ROWS.schema, pa.schema([])), guarded=True) for text in EXPRESSIONS]
    columns = [sf.expr(text).alias(f"c{place}") for place, text in enumerate(texts)]
    # A zone whose days are not all as long: no answer depends on it.
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    table = frame.select("id", *columns).toArrow().sort_by("id")
    spark.conf.set("spark.sql.session.timeZone", before)
    return {text: table[f"c{place}"].to_pylist() for place, text in enumerate(EXPRESSIONS)}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_spark_agrees(answers, text):
    ours = evaluate(parse_expression(text, ROWS.schema, pa.schema([])), ROWS).to_pylist()
    assert all(same(one, other) for one, other in zip(ours, answers[text], strict=True)), (ours, answers[text])


def test_what_is_finer_than_any_time_of_spark():
    schema = pa.schema([("t", pa.timestamp("us"))])
    node = parse_expression("l.t - interval '0.0000015 seconds'", schema, pa.schema([]))
    with pytest.raises(PlanError, match=r"INTERVAL '0\.0000015 seconds' is finer than a microsecond"):
        to_sql(node, guarded=True)
