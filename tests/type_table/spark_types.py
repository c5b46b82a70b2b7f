"""Spark's types, and DataFrames of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import ArrayType, DataType, DoubleType, UserDefinedType

from support.engines import to_spark
from type_table.column_types import ColumnType

__all__ = ["NUMBERS", "TYPES", "SparkColumn", "Tables"]


Finish = Callable[[DataFrame, str], DataFrame]
"""Turns a column of a DataFrame into what SQL cannot say."""


@dataclass(frozen=True)
class SparkColumn:
    """A column of a table that is to be made.

    Attributes
    ----------
    places
        Of its values among those of its type; None for null.
    sql
        Picks the values in SQL, by the places that the column ``{}`` has.
    finish
        Gives it what SQL cannot say.
    """

    places: Sequence[int | None]
    sql: str = "{}"
    finish: Finish | None = None


class Tables:
    """Makes DataFrames in a session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._places: dict[object, DataFrame] = {}

    def of(self, columns: Mapping[str, SparkColumn]) -> DataFrame:
        """Return a DataFrame of columns, whose types are right where all values are null, too."""
        frame = self._of_places({name: tuple(column.places) for name, column in columns.items()})
        frame = frame.selectExpr(*(f"{column.sql.format(name)} AS {name}" for name, column in columns.items()))
        for name, column in columns.items():
            frame = column.finish(frame, name) if column.finish else frame
        return frame

    def _of_places(self, places: Mapping[str, tuple[int | None, ...]]) -> DataFrame:
        """Return a DataFrame of numbers, the same for the same ones: most types share those of a trial."""
        key = tuple(places.items())
        if key not in self._places:
            arrays = {name: pa.array(numbers, pa.int64()) for name, numbers in places.items()}
            self._places[key] = to_spark(self._session, pa.table(arrays))
        return self._places[key]


def spark_type(name: str, literal: str, values: Sequence[str]) -> ColumnType:
    """Return a type whose values are written as a literal in SQL, with a text for its ``?``."""
    return sql_type(name, [literal.replace("?", value) for value in values])


def sql_type(name: str, values: Sequence[str], finish: Finish | None = None) -> ColumnType:
    """Return a type whose values are written in SQL."""
    sql = f"get(array({', '.join(values)}), CAST({{}} AS INT))" if values else "NULL"

    def make(chosen: Sequence[str | None]) -> SparkColumn:
        return SparkColumn([None if each is None else values.index(each) for each in chosen], sql, finish)

    return ColumnType(name, values, make)


def chars(name: str, values: Sequence[str]) -> ColumnType:
    """Return a type that Spark keeps in the metadata of a column of texts."""

    def finish(frame: DataFrame, column: str) -> DataFrame:
        return frame.withMetadata(column, {"__CHAR_VARCHAR_TYPE_STRING": name})

    return sql_type(name, [f"'{value}'" for value in values], finish)


class Vector(UserDefinedType):
    """A user's own type: lists of numbers."""

    @classmethod
    def sqlType(cls) -> DataType:  # noqa: N802
        return ArrayType(DoubleType(), containsNull=False)

    @classmethod
    def module(cls) -> str:
        return "type_table.spark_types"

    def serialize(self, value: Numbers) -> list[float]:
        return value.numbers

    def deserialize(self, numbers: list[float]) -> Numbers:
        return Numbers(numbers)


@dataclass(frozen=True)
class Numbers:
    """A value of a user's own type."""

    __UDT__ = Vector()

    numbers: list[float]


def vectors(values: Sequence[list[float]]) -> ColumnType:
    """Return the user's own type."""

    def finish(frame: DataFrame, name: str) -> DataFrame:
        picked = udf(lambda place: None if place is None else Numbers(values[place]), Vector())
        return frame.withColumn(name, picked(name))

    def make(chosen: Sequence[list[float] | None]) -> SparkColumn:
        return SparkColumn([None if each is None else values.index(each) for each in chosen], finish=finish)

    return ColumnType("user-defined", values, make)


NUMBERS = ColumnType("bigint", range(1_000), SparkColumn)

WHOLE, REAL = ("-100", "-1", "0", "100"), ("-1.5", "0.0", "0.5", "1000.0")
TEXT, LETTERS = ("", "a", "b", "é"), ("", "B", "a", "c")
TIMES = ("1969-12-31 00:00:00", "1970-01-01 00:00:00.5", "2024-02-29 12:00:00", "9999-12-31 00:00:00")
CLOCK = ("00:00:00", "00:00:01", "12:00:00.123456", "23:59:59")
POINTS = tuple(f"X'01010000000000000000000000000000000000{end}'" for end in ("0000", "F03F", "0040", "0840"))

TYPES = (
    sql_type("void", ()),
    sql_type("boolean", ("false", "true")),
    *(spark_type(name, f"CAST(? AS {name})", WHOLE) for name in ("tinyint", "smallint", "int", "bigint")),
    *(spark_type(name, f"CAST(? AS {name})", REAL) for name in ("float", "double", "decimal(10,2)", "decimal(38,10)")),
    spark_type("date", "DATE'?'", ("1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")),
    spark_type("timestamp", "TIMESTAMP_LTZ'?'", TIMES),
    spark_type("timestamp_ntz", "TIMESTAMP_NTZ'?'", TIMES),
    spark_type("time(6), where it is enabled", "TIME'?'", CLOCK),
    spark_type("interval year to month", "INTERVAL '?' YEAR TO MONTH", ("-1-0", "0-0", "0-1", "100-0")),
    spark_type("interval year", "INTERVAL '?' YEAR", ("-1", "0", "1", "100")),
    spark_type("interval day to second", "INTERVAL '?' DAY TO SECOND", ("-1 0:0:0", "0 0:0:0", "0 0:0:1", "9 0:0:0")),
    spark_type("interval day", "INTERVAL '?' DAY", ("-1", "0", "1", "100")),
    spark_type("interval", "make_interval(0, 0, 0, ?)", ("-1", "0", "1", "100")),
    spark_type("string", "'?'", TEXT),
    chars("char(2)", ("  ", "a ", "b ", "é ")),
    chars("varchar(2)", TEXT),
    *(spark_type(f"string collate {each}", f"('?' COLLATE {each})", LETTERS) for each in ("UTF8_LCASE", "UNICODE_CI")),
    spark_type("binary", "X'?'", ("", "00", "0001", "FF")),
    spark_type("variant", "parse_json('?')", ("1", "2", "3", "4")),
    spark_type("geometry(0)", "ST_GeomFromWKB(?)", POINTS),
    spark_type("geography(4326)", "ST_GeogFromWKB(?)", POINTS),
    spark_type("array<int>", "CAST(array(?) AS ARRAY<INT>)", ("", "NULL", "1", "1, 2")),
    spark_type("array<string collate UTF8_LCASE>", "array('?' COLLATE UTF8_LCASE)", LETTERS),
    spark_type(
        "struct<a:int,b:string>",
        "CAST(struct(?) AS STRUCT<a: INT, b: STRING>)",
        ("NULL, 'z'", "1, NULL", "1, 'a'", "2, ''"),
    ),
    spark_type("struct<a:int not null>", "named_struct('a', ?)", ("0", "1", "2", "3")),
    spark_type("map<string,int>", "map(?)", ("'a', 1", "'a', 2", "'b', 0", "'c', 0")),
    vectors([[], [1.0], [1.0, 2.0], [2.0]]),
)
