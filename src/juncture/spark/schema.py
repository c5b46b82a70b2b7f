"""Conversion between Spark's types and Arrow's.

Joins are resolved against Arrow schemas. The rows that a task returns must have exactly the Arrow types that Spark
expects, the *wire* types. Nullability is ignored in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.types import plain_type
from juncture.errors import SchemaError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_SPARK_PRECISION_MAX = 38


def arrow_schema(schema: StructType, side: Literal["left", "right"]) -> pa.Schema:
    """Return the Arrow schema in which a DataFrame's rows reach Python; errors name `side`.

    Examples
    --------
    >>> from pyspark.sql.types import StringType, StructType, TimestampType
    >>> arrow_schema(StructType().add("ts", TimestampType()).add("robot", StringType()), "left").types
    [TimestampType(timestamp[us, tz=UTC]), DataType(string)]
    """
    fields = []
    for field in schema.fields:
        data_type = _arrow_type(field.dataType)
        if data_type is None:
            raise SchemaError(
                f"The {side} column {field.name!r} is of type {field.dataType.simpleString()}, which Spark cannot "
                "convert to Arrow. Cast or drop it.",
                name="JN-TYPE-UNSUPPORTED",
            )
        fields.append(pa.field(field.name, data_type))
    return pa.schema(fields)


def _arrow_type(data_type: DataType) -> pa.DataType | None:
    """Return the Arrow type of a Spark type, or None if it has none."""
    from pyspark.sql import types as st

    simple: dict[type[DataType], pa.DataType] = {
        st.BooleanType: pa.bool_(),
        st.ByteType: pa.int8(),
        st.ShortType: pa.int16(),
        st.IntegerType: pa.int32(),
        st.LongType: pa.int64(),
        st.FloatType: pa.float32(),
        st.DoubleType: pa.float64(),
        st.StringType: pa.string(),
        st.BinaryType: pa.binary(),
        st.DateType: pa.date32(),
        st.TimestampType: pa.timestamp("us", "UTC"),
        st.TimestampNTZType: pa.timestamp("us"),
        st.DayTimeIntervalType: pa.duration("us"),
        st.NullType: pa.null(),
    }
    if isinstance(data_type, st.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if type(data_type) in simple:
        return simple[type(data_type)]
    if isinstance(data_type, st.ArrayType):
        item = _arrow_type(data_type.elementType)
        return None if item is None else pa.list_(pa.field("element", item))
    if isinstance(data_type, st.MapType):
        key, value = _arrow_type(data_type.keyType), _arrow_type(data_type.valueType)
        return None if key is None or value is None else pa.map_(key, pa.field("value", value))
    if isinstance(data_type, st.StructType):
        types = [(field.name, _arrow_type(field.dataType)) for field in data_type.fields]
        return None if any(item is None for _, item in types) else pa.struct(types)
    if data_type.typeName() == "time":
        return pa.time64("ns")
    return None


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the DataFrame schema for rows of an Arrow schema.

    Raises `SchemaError` for unsigned 64-bit integers, nanoseconds and decimals beyond 38 digits.

    Examples
    --------
    >>> spark_schema(pa.schema([("ts", pa.timestamp("ms")), ("n", pa.uint16())])).simpleString()
    'struct<ts:timestamp_ntz,n:int>'
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, _spark_type(field.type, field.name)) for field in schema])


_BY_CHECK: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pat.is_boolean, "BooleanType"),
    (pat.is_int8, "ByteType"),
    (pat.is_int16, "ShortType"),
    (pat.is_uint8, "ShortType"),
    (pat.is_int32, "IntegerType"),
    (pat.is_uint16, "IntegerType"),
    (pat.is_int64, "LongType"),
    (pat.is_uint32, "LongType"),
    (pat.is_float16, "FloatType"),
    (pat.is_float32, "FloatType"),
    (pat.is_float64, "DoubleType"),
    (pat.is_string, "StringType"),
    (pat.is_large_string, "StringType"),
    (pat.is_string_view, "StringType"),
    (pat.is_binary, "BinaryType"),
    (pat.is_large_binary, "BinaryType"),
    (pat.is_binary_view, "BinaryType"),
    (pat.is_fixed_size_binary, "BinaryType"),
    (pat.is_date, "DateType"),
    (pat.is_null, "NullType"),
)


def _spark_type(data_type: pa.DataType, name: str) -> DataType:
    from pyspark.sql import types as st

    data_type = plain_type(data_type)
    for check, spark_name in _BY_CHECK:
        if check(data_type):
            plain: DataType = getattr(st, spark_name)()
            return plain
    if pat.is_decimal(data_type) and data_type.precision <= _SPARK_PRECISION_MAX and data_type.scale >= 0:
        return st.DecimalType(data_type.precision, data_type.scale)
    if pat.is_timestamp(data_type) and data_type.unit != "ns":
        return st.TimestampNTZType() if data_type.tz is None else st.TimestampType()
    if pat.is_duration(data_type) and data_type.unit != "ns":
        return st.DayTimeIntervalType()
    if pat.is_time(data_type) and hasattr(st, "TimeType"):
        time_type: DataType = st.TimeType(6 if data_type.unit != "ns" else 9)
        return time_type
    if pat.is_map(data_type):
        return st.MapType(_spark_type(data_type.key_type, name), _spark_type(data_type.item_type, name))
    if pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_fixed_size_list(data_type):
        return st.ArrayType(_spark_type(data_type.value_type, name))
    if pat.is_struct(data_type):
        return st.StructType([st.StructField(field.name, _spark_type(field.type, name)) for field in data_type])
    raise SchemaError(
        f"Column {name!r} is of type {data_type}, which Spark cannot represent exactly. Write it with another type, "
        "such as microseconds instead of nanoseconds, or join in-process without spark=.",
        name="JN-TYPE-UNSUPPORTED",
    )


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """Return the Arrow schema that Spark expects for rows of an Arrow schema.

    Examples
    --------
    >>> wire_schema(pa.schema([("ts", pa.timestamp("ms")), ("k", pa.dictionary(pa.int32(), pa.string()))])).types
    [TimestampType(timestamp[us]), DataType(string)]
    """
    return arrow_schema(spark_schema(schema), "left")


def nullable(data_type: DataType) -> DataType:
    """Return a type with all parts nullable.

    Examples
    --------
    >>> from pyspark.sql.types import ArrayType, LongType
    >>> nullable(ArrayType(LongType(), containsNull=False))
    ArrayType(LongType(), True)
    """
    from pyspark.sql import types as st

    if isinstance(data_type, st.ArrayType):
        return st.ArrayType(nullable(data_type.elementType))
    if isinstance(data_type, st.MapType):
        return st.MapType(nullable(data_type.keyType), nullable(data_type.valueType))
    if isinstance(data_type, st.StructType):
        fields = data_type.fields
        return st.StructType([st.StructField(f.name, nullable(f.dataType), metadata=f.metadata) for f in fields])
    return data_type
