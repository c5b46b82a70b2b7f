"""Conversion between Spark's types and Arrow's, and restrictions of joins that only Spark's types have.

Joins are resolved against Arrow schemas. The rows that a task returns must have exactly the Arrow types that Spark
expects, the *wire* types. Nullability is ignored in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import types as st
from pyspark.sql.types import DataType, StructType

from juncture.columnar.types import plain_type
from juncture.errors import PlanError, SchemaError
from juncture.spark.session.session import setting
from juncture.spec.resolved import Resolved
from juncture.spec.schema import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SPARK_PRECISION_MAX = 38


def arrow_schema(schema: StructType, side: str) -> pa.Schema:
    """Return the Arrow schema in which a DataFrame's rows reach Python; errors name `side`."""
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


_TYPES: dict[type[DataType], tuple[pa.DataType, ...]] = {
    st.BooleanType: (pa.bool_(),),
    st.ByteType: (pa.int8(),),
    st.ShortType: (pa.int16(), pa.uint8()),
    st.IntegerType: (pa.int32(), pa.uint16()),
    st.LongType: (pa.int64(), pa.uint32()),
    st.FloatType: (pa.float32(), pa.float16()),
    st.DoubleType: (pa.float64(),),
    st.StringType: (pa.string(), pa.large_string(), pa.string_view()),
    st.BinaryType: (pa.binary(), pa.large_binary(), pa.binary_view()),
    st.DateType: (pa.date32(), pa.date64()),
    st.TimestampType: (pa.timestamp("us", "UTC"),),
    st.TimestampNTZType: (pa.timestamp("us"),),
    st.DayTimeIntervalType: (pa.duration("us"),),
    st.NullType: (pa.null(),),
}
"""The Arrow types of values that a Spark type represents. In the first one they reach Python."""

_SPARK_TYPES = {data_type: spark_type for spark_type, types in _TYPES.items() for data_type in types}


def _arrow_type(data_type: DataType) -> pa.DataType | None:
    """Return the Arrow type of a Spark type, or None if it has none."""
    if isinstance(data_type, st.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if type(data_type) in _TYPES:
        return _TYPES[type(data_type)][0]
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
    """Return the DataFrame schema for Arrow rows; raise `SchemaError` for uint64, nanoseconds and wide decimals."""
    return StructType([st.StructField(field.name, _spark_type(field.type, field.name)) for field in schema])


def _spark_type(data_type: pa.DataType, name: str) -> DataType:
    data_type = plain_type(data_type)
    if data_type in _SPARK_TYPES:
        return _SPARK_TYPES[data_type]()
    if pat.is_fixed_size_binary(data_type):
        return st.BinaryType()
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
    """Return the Arrow schema that Spark expects for rows of one: without encodings, times in microseconds."""
    return arrow_schema(spark_schema(schema), "left")


def nullable(data_type: DataType) -> DataType:
    """Return a type with all parts nullable."""
    if isinstance(data_type, st.ArrayType):
        return st.ArrayType(nullable(data_type.elementType))
    if isinstance(data_type, st.MapType):
        return st.MapType(nullable(data_type.keyType), nullable(data_type.valueType))
    if isinstance(data_type, st.StructType):
        fields = data_type.fields
        return st.StructType([st.StructField(f.name, nullable(f.dataType), metadata=f.metadata) for f in fields])
    return data_type


_TIMES = "spark.sql.timeType.enabled"
_OLD_INTERVALS = "spark.sql.legacy.interval.enabled"


def check_types(join: Resolved, left: StructType, right: StructType) -> None:
    """Raise `SchemaError` for collated text that decides matches, and for filled columns of two types.

    Tasks compare text by its bytes, and so do Spark's own operators, as results must not depend on the algorithm.
    """
    types: dict[Side, dict[str, DataType]] = {
        "left": {field.name: field.dataType for field in left.fields},
        "right": {field.name: field.dataType for field in right.fields},
    }
    for side, side_types in types.items():
        for name, argument in _deciding(join, side).items():
            if is_collated(side_types[name]):
                raise SchemaError(
                    f"{argument} names the {side} column {join.value(side, name).label!r}, which is of type "
                    f"{side_types[name].simpleString()}, but joins compare text by bytes. Pass collate(column, "
                    "'UTF8_BINARY'), with lower(column) to ignore case.",
                    name="JN-COLLATION",
                )
    for column in join.output:
        if column.filled_from is not None:
            left_type, right_type = types["left"][column.source], types["right"][column.filled_from]
            names = left_type.simpleString(), right_type.simpleString()
            # A column of the null type can be filled with any type.
            if names[0] != names[1] and "void" not in names:
                raise SchemaError(
                    f"how={join.how!r} fills the left column {column.source!r} ({names[0]}) from the right column "
                    f"{column.filled_from!r} ({names[1]}) for unmatched right rows, but their types differ. Cast one "
                    "of them.",
                    name="JN-FILL-TYPE",
                )


def check_times(left: StructType, right: StructType, session: SparkSession) -> None:
    """Raise `SchemaError` for columns of type ``TIME`` from files if the session disables that type."""
    if (setting(session, _TIMES) or "").lower() != "false":
        return
    for side, schema in (("left", left), ("right", right)):
        for field in schema.fields:
            if re.search(r"\btime\(", field.dataType.simpleString()):
                raise SchemaError(
                    f"The {side} column {field.name!r} is of type {field.dataType.simpleString()}, which is "
                    f"disabled in this session. Set {_TIMES} to true, or drop the column.",
                    name="JN-TYPE-UNSUPPORTED",
                )


def check_intervals(join: Resolved, session: SparkSession) -> None:
    """Raise `PlanError` for a join in SQL that needs time intervals in a session with legacy intervals."""
    if (setting(session, _OLD_INTERVALS) or "").lower() == "true" and _makes_intervals(join):
        raise PlanError(
            f"{_OLD_INTERVALS} is true, but the join needs time differences as numbers. Set it to false for this join.",
            name="JN-SPARK-SETTING",
        )


def _makes_intervals(join: Resolved) -> bool:
    """Return whether a join in SQL computes intervals between times."""
    types = [join.left_schema.field(name).type for name in join.compared("left")]
    types += [join.right_schema.field(name).type for name in join.compared("right")]
    if join.predicate is not None:
        return any(map(pat.is_temporal, types))
    # Times with a zone are compared by their microseconds.
    return join.domain is not None and any(pat.is_timestamp(each) and each.tz is None for each in types)


def is_collated(data_type: DataType) -> bool:
    """Return whether a type contains text that is not compared by bytes."""
    return any(isinstance(part, st.StringType) and part != st.StringType() for part in parts(data_type))


def has_map(data_type: DataType) -> bool:
    """Return whether a type contains maps, which SQL neither sorts nor hashes."""
    return any(isinstance(part, st.MapType) for part in parts(data_type))


def parts(data_type: DataType) -> Iterator[DataType]:
    """Yield a type and all types within it."""
    yield data_type
    inner: list[DataType] = []
    if isinstance(data_type, st.ArrayType):
        inner = [data_type.elementType]
    elif isinstance(data_type, st.MapType):
        inner = [data_type.keyType, data_type.valueType]
    elif isinstance(data_type, st.StructType):
        inner = [field.dataType for field in data_type.fields]
    for each in inner:
        yield from parts(each)


def _deciding(join: Resolved, side: Side) -> dict[str, str]:
    """Return the columns of a side that decide matches, with the argument that names each."""
    named = dict[str, str]()
    for name in join.compared(side):
        parts = [part.name for part in join.value(side, name).parts]
        named |= dict.fromkeys(parts, "on" if len(parts) > 1 else "The condition")
    if side == "right":
        named |= dict.fromkeys(join.spec.order_columns(), "order_by")
    by = join.left_by if side == "left" else join.right_by
    return named | dict.fromkeys(by, join.spec.key_argument)
