"""Columns of Spark's own types: through every algorithm, and where they decide."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

import juncture as jn
from juncture.errors import SchemaError
from juncture.spark.schema import arrow_schema, check_types
from juncture.spark.sql import common_type
from support.engines import SPARK, to_spark
from support.session import with_time
from support.tables import difference

pytestmark = pytest.mark.in_turn

COLUMNS = {
    "struct": "IF(n = 2, NULL, named_struct('a', n, 'b', k))",
    "structs": "IF(n = 2, NULL, array(named_struct('a', n, 'b', array(k))))",
    "map": "IF(n = 2, NULL, map('q', named_struct('a', n)))",
    "void": "NULL",
    "voids": "array(NULL)",
    "named void": "named_struct('a', NULL)",
    "time": "TIME'12:00:00' + make_dt_interval(0, n)",
    "days": "CAST(make_dt_interval(n) AS INTERVAL DAY)",
    "wall": "TIMESTAMP_NTZ'2024-02-29 12:00:00' + make_dt_interval(n)",
    "text": "concat('x', n) COLLATE UNICODE_CI",
    "texts": "array(k COLLATE UTF8_LCASE)",
    "bytes": "CAST(k AS BINARY)",
    "tiny": "CAST(n AS TINYINT)",
    "wide.`decimal": "CAST(n AS DECIMAL(38, 37))",
}
"""Expressions of one row, by their name."""


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session that has the type TIME."""
    with with_time(spark):
        yield spark


def every_type(session: SparkSession) -> DataFrame:
    columns = ", ".join(f"{text} AS `{name.replace('`', '``')}`" for name, text in COLUMNS.items())
    frame = session.sql(f"SELECT n, k, {columns} FROM VALUES (1, 'a'), (2, 'a'), (3, 'b') AS rows(n, k)")
    return frame.withMetadata("tiny", {"unit": "m"})


EVERYWHERE = {
    "asof": (jn.Asof(on="n", by="k"), SPARK),
    "range": (jn.Range(on="n", by="k", lower=0, upper=0, how="full"), ("range", "bins")),
    "where": (jn.Where("l.n = r.n", by="k"), ("broadcast", "broadcast_left", "range", "nested_loop", "sql")),
    "equi": (jn.Equi(on=["k", "n"]), ("broadcast", "sort_merge")),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", EVERYWHERE)
def test_every_type_goes_through(session, kind):
    spec, algorithms = EVERYWHERE[kind]
    frame = every_type(session)
    rows, types = frame.collect(), {field.name: field.dataType.simpleString() for field in frame.schema}
    for algorithm in algorithms:
        plan = jn.plan(frame, frame, spec, algorithm=algorithm)
        answer, sources = plan.execute(), [column.source for column in plan.join.output]
        assert [field.dataType.simpleString() for field in answer.schema] == [types[name] for name in sources]
        assert {field.name: field.metadata for field in answer.schema if field.metadata} == {
            "tiny": {"unit": "m"},
            "tiny_right": {"unit": "m"},
        }
        expected = {row["n"]: [row[name] for name in sources] for row in rows}
        assert {row["n"]: list(row) for row in answer.collect()} == expected, algorithm


@pytest.mark.parametrize("text", ["named_struct('text', text COLLATE UTF8_LCASE)", "map(text COLLATE UTF8_LCASE, 1)"])
def test_text_with_a_collation_breaks_ties_by_its_bytes(spark, text):
    """The collation says that `C` is greater, the bytes that `b` is."""
    left = spark.sql("SELECT 1 AS n")
    right = spark.sql(f"SELECT 1 AS n, {text} AS text, text AS plain FROM VALUES ('b'), ('C') AS rows(text)")
    for algorithm in ("broadcast", "window"):
        answer = jn.plan(left, right, jn.Asof(on="n"), algorithm=algorithm).execute()
        assert [row["plain"] for row in answer.collect()] == ["b"], algorithm


def test_nulls_of_a_column_without_a_type_may_be_equal(spark):
    frame = spark.sql("SELECT n, NULL AS void FROM VALUES (1), (2) AS rows(n)")
    for algorithm in ("broadcast_left", "sort_merge"):
        answer = jn.plan(frame, frame, jn.Equi(on="void", nulls_equal=True), algorithm=algorithm).execute()
        assert answer.count() == 4, algorithm


UNTYPED = pa.table({"n": [1, 2, 3], "k": ["a", "b", None], "v": pa.nulls(3)})
TYPED = pa.table({"n": [1, 2, 2], "k": ["a", "b", "b"], "v": pa.array([1, None, 3], pa.int64())})
VOID = [
    ("hash", jn.Asof(left_on="v", right_on="n", by="k", how="full")),
    ("window", jn.Asof(on="n", by="v", how="anti")),
    ("broadcast", jn.Asof(on="n", tolerance="v")),
    ("range", jn.Range(on="n", by="v", lower=-1, upper=1, how="full")),
    ("nested_loop", jn.Range(on="n", lower="v", upper=1, how="left")),
    ("bins", jn.Overlap(left_interval=("v", "n"), right_interval=("n", "n"), closed="both", how="left")),
    ("nested_loop", jn.Where("l.v = r.v AND l.n <= r.n", by="k", how="left")),
    ("broadcast", jn.Where("l.n = r.n AND (l.v IS NULL OR l.v < r.v)")),
    ("sort_merge", jn.Equi(on="v", how="full")),
    ("broadcast", jn.Equi(on="v", nulls_equal=True)),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("algorithm", "spec"), VOID, ids=lambda each: getattr(each, "kind", each))
def test_columns_without_a_type_are_compared(spark, algorithm, spec):
    frames = [to_spark(spark, table) for table in (UNTYPED, TYPED)]
    assert frames[0].schema["v"].dataType == st.NullType()
    answer = jn.plan(*frames, spec, algorithm=algorithm).execute().toArrow()
    assert difference(answer, jn.plan(UNTYPED, TYPED, spec).execute(), ordered=False) is None


def test_columns_without_a_type_in_files_and_aggregates(spark, tmp_path):
    paths = [str(tmp_path / name) for name in ("untyped.parquet", "typed.parquet")]
    for path, table in zip(paths, (UNTYPED, TYPED), strict=True):
        pq.write_table(table, path)
    joins = [
        ("window", jn.Asof(on="n"), paths),
        ("hash", jn.Asof(on="n", by="v"), paths),
        ("broadcast", jn.Range(on="n", lower=0, upper=0, agg={"v": ["max", "sum"]}), paths[::-1]),
    ]
    for algorithm, spec, sides in joins:
        answer = jn.plan(*sides, spec, algorithm=algorithm, spark=spark).execute().toArrow()
        assert difference(answer, jn.plan(*sides, spec).execute(), ordered=False) is None, algorithm


def test_keys_of_two_precisions_are_compared_exactly():
    pairs = [
        (st.TimeType(0), st.TimeType(6), st.TimeType(6)),
        (st.TimeType(9), st.TimeType(6), st.TimeType(9)),
        (st.DayTimeIntervalType(0, 0), st.DayTimeIntervalType(1, 3), st.DayTimeIntervalType(0, 3)),
        (st.NullType(), st.ShortType(), st.ShortType()),
        (st.DateType(), st.NullType(), st.DateType()),
        (st.ArrayType(st.NullType()), st.ArrayType(st.TimeType(0)), st.ArrayType(st.TimeType(0))),
    ]
    for ours, theirs, shared in pairs:
        assert common_type(ours, theirs) == shared
    assert common_type(st.NullType(), st.NullType()) != st.NullType()


def fields(**types: st.DataType) -> st.StructType:
    return st.StructType([st.StructField(name, data_type) for name, data_type in types.items()])


def refused(spec: object, left: st.StructType, right: st.StructType) -> str:
    join = spec.resolve(arrow_schema(left, "left"), arrow_schema(right, "right"))
    with pytest.raises(SchemaError) as error:
        check_types(join, left, right)
    return error.value.message


PLAIN, COLLATED = fields(n=st.LongType(), k=st.StringType()), fields(n=st.LongType(), k=st.StringType("UTF8_LCASE"))
DECIDING = {
    "by": [
        jn.Asof(on="n", by="k"),
        jn.Range(on="n", by="k", lower=0, upper=1),
        jn.Overlap(left_interval=("n", None), right_interval=(None, "n"), by="k"),
    ],
    "on": [jn.Asof(on=["n", "k"]), jn.Equi(on="k"), jn.Equi(on=["n", "k"], where="l.n > r.n")],
    "The condition": [jn.Where("l.n = r.n AND l.k < r.k"), jn.Equi(on="n", where="r.k = l.k")],
}


@pytest.mark.parametrize("argument", DECIDING)
def test_text_with_a_collation_decides_nothing(argument):
    for spec in DECIDING[argument]:
        for side, schemas in (("left", (COLLATED, PLAIN)), ("right", (PLAIN, COLLATED))):
            start = f"{argument} names the {side} column 'k', which is of type string collate UTF8_LCASE, but"
            assert refused(spec, *schemas).startswith(start)


def test_text_with_a_collation_in_order_by():
    nested = fields(n=st.LongType(), k=st.ArrayType(st.StringType("UNICODE")))
    spec = jn.Asof(on="n", order_by="k")
    assert refused(spec, PLAIN, COLLATED).startswith("order_by names the right column 'k'")
    assert "array<string collate UNICODE>" in refused(spec, PLAIN, nested)
    join = jn.Asof(on="n").resolve(arrow_schema(PLAIN, "left"), arrow_schema(nested, "right"))
    check_types(join, nested, nested)


def test_a_column_that_would_hold_two_types():
    ours, theirs = fields(n=st.LongType(), k=st.TimeType(0)), fields(n=st.LongType(), k=st.TimeType(6))
    for spec in (jn.Asof(on="n", by="k", how="full"), jn.Equi(on="k", how="right")):
        assert "fills the left column 'k' (time(0)) from the right column 'k' (time(6))" in refused(spec, ours, theirs)
    untyped = fields(n=st.LongType(), k=st.NullType())
    for spec, right in ((jn.Equi(on="k"), theirs), (jn.Equi(on="k", how="full"), untyped)):
        check_types(spec.resolve(arrow_schema(ours, "left"), arrow_schema(right, "right")), ours, right)


@pytest.mark.parametrize(
    "data_type",
    [st.CharType(3), st.VarcharType(3), st.VariantType(), st.YearMonthIntervalType(), st.CalendarIntervalType()],
    ids=str,
)
def test_types_that_python_never_sees(data_type):
    for held in (data_type, st.ArrayType(data_type), st.MapType(st.StringType(), data_type), fields(a=data_type)):
        with pytest.raises(SchemaError, match=r"The right column 'x' is of type .* Cast or drop it"):
            arrow_schema(fields(x=held), "right")


def test_what_becomes_of_null_and_time():
    schema = arrow_schema(fields(void=st.NullType(), time=st.TimeType(6)), "left")
    assert schema.types == [pa.null(), pa.time64("ns")]
