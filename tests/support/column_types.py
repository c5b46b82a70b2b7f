"""Types of the columns of random as-of joins: those that Spark has, and those that only Arrow has."""

from __future__ import annotations

import pyarrow as pa


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


UTC_US = pa.timestamp("us", "UTC")

# Pairs of a left and a right type. Those of Spark are those that both Arrow and Spark have.
SPARK_ON = [
    (pa.int64(), pa.int64()),
    (pa.int8(), pa.int64()),
    (pa.int32(), pa.int16()),
    (pa.float64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(10, 2), pa.decimal128(10, 2)),
    (pa.decimal128(38, 0), pa.decimal128(38, 37)),
    (pa.date32(), pa.date32()),
    (pa.timestamp("us"), pa.timestamp("us")),
    (UTC_US, UTC_US),
]
LOCAL_ON = [
    *SPARK_ON,
    (pa.uint64(), pa.int64()),
    (pa.int8(), pa.uint64()),
    (pa.uint64(), pa.uint64()),
    (pa.float16(), pa.float32()),
    (pa.decimal128(10, 1), pa.decimal256(50, 20)),
    (pa.decimal32(5, 2), pa.decimal64(15, 0)),
    (pa.date32(), pa.date64()),
    (pa.timestamp("s"), pa.timestamp("ns")),
    (pa.timestamp("ns"), pa.timestamp("ms")),
    (pa.timestamp("us", "America/New_York"), pa.timestamp("ms", "Asia/Tokyo")),
    (pa.dictionary(pa.int8(), pa.int64()), pa.int64()),
    (pa.timestamp("us"), pa.run_end_encoded(pa.int32(), pa.timestamp("us"))),
    (pa.null(), pa.timestamp("ms")),
    (pa.decimal128(5, 2), pa.null()),
    (pa.null(), pa.null()),
    (pa.decimal128(5, -2), pa.decimal128(5, -2)),
    (pa.decimal32(5, -2), pa.decimal256(20, -5)),
    (pa.decimal128(7, -3), pa.decimal64(15, 2)),
    (pa.float16(), pa.dictionary(pa.uint8(), pa.float16())),
    (pa.run_end_encoded(pa.int16(), pa.decimal64(15, 0)), pa.dictionary(pa.int64(), pa.decimal32(5, 2))),
]
SPARK_BY = [
    (pa.int64(), pa.int64()),
    (pa.string(), pa.string()),
    (pa.int8(), pa.int64()),
    (pa.bool_(), pa.bool_()),
    (pa.date32(), pa.date32()),
    (pa.decimal128(10, 2), pa.decimal128(20, 4)),
    (pa.float64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.binary(), pa.binary()),
    (pa.timestamp("us"), pa.timestamp("us")),
    (struct(a=pa.int64(), b=pa.string()), struct(a=pa.int64(), b=pa.string())),
    (pa.list_(pa.float64()), pa.list_(pa.float64())),
]
LOCAL_BY = [
    *SPARK_BY,
    (pa.uint64(), pa.int64()),
    (pa.string(), pa.large_string()),
    (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    (pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())),
    (pa.string(), pa.run_end_encoded(pa.int32(), pa.string())),
    (pa.binary(2), pa.large_binary()),
    (pa.date64(), pa.date32()),
    (pa.timestamp("s"), pa.timestamp("ns")),
    (pa.time32("s"), pa.time64("us")),
    (struct(a=pa.int8()), struct(b=pa.int64())),
    (pa.list_(pa.timestamp("s")), pa.list_(pa.timestamp("ns"))),
    (pa.list_(pa.int32()), pa.large_list(pa.int64())),
    (pa.null(), pa.string()),
    (struct(a=pa.int8()), pa.dictionary(pa.int8(), pa.null())),
    (pa.string_view(), pa.dictionary(pa.uint16(), pa.string_view())),
    (pa.run_end_encoded(pa.int16(), pa.binary_view()), pa.binary()),
    (pa.list_(pa.string_view()), pa.list_view(pa.string())),
    (struct(a=pa.string_view()), struct(b=pa.dictionary(pa.int8(), pa.string()))),
    (pa.large_list_view(pa.int8()), pa.list_(pa.int64())),
    (pa.list_(pa.null()), pa.list_(pa.null())),
    (pa.float16(), pa.float64()),
    (pa.decimal32(5, 2), pa.decimal256(20, -5)),
    (pa.dictionary(pa.int8(), pa.decimal128(5, -2)), pa.decimal64(9, -1)),
    (pa.dictionary(pa.int16(), pa.list_(pa.int8())), pa.list_(pa.int8())),
]
# What as-of joins of tables compare besides: numbers of several kinds, and what has an order and is no number.
SPARK_MORE_ON = [
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.int16()),
    (pa.decimal128(10, 2), pa.int32()),
    (pa.float64(), pa.decimal128(10, 2)),
    (pa.string(), pa.string()),
    (pa.binary(), pa.binary()),
    (pa.duration("us"), pa.duration("us")),
]
LOCAL_MORE_ON = [
    *SPARK_MORE_ON,
    (pa.float16(), pa.int64()),
    (pa.uint64(), pa.float64()),
    (pa.dictionary(pa.int8(), pa.int8()), pa.float32()),
    (pa.uint64(), pa.decimal64(15, 2)),
    (pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())),
    (pa.binary(2), pa.large_binary()),
    (pa.duration("s"), pa.duration("ns")),
    (pa.time32("s"), pa.time64("us")),
    (pa.time64("ns"), pa.null()),
]
SPARK_MORE_BY = [
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.int8()),
    (pa.decimal128(10, 2), pa.int64()),
]
LOCAL_MORE_BY = [
    *SPARK_MORE_BY,
    (pa.dictionary(pa.int8(), pa.float64()), pa.int64()),
    (pa.float16(), pa.uint8()),
    (pa.uint64(), pa.decimal32(5, 2)),
    (pa.float64(), pa.decimal128(10, 2)),
]
SPARK_PAYLOAD = [
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.int8(),
    pa.float32(),
    pa.bool_(),
    pa.decimal128(10, 2),
    pa.date32(),
    pa.timestamp("us"),
    UTC_US,
    pa.binary(),
    pa.list_(pa.int64()),
    pa.list_(pa.list_(pa.string())),
    pa.list_(pa.timestamp("us")),
    struct(a=pa.float64(), b=pa.string()),
    pa.map_(pa.string(), pa.int64()),
]
LOCAL_PAYLOAD = [
    *SPARK_PAYLOAD,
    pa.uint64(),
    pa.float16(),
    pa.large_string(),
    pa.string_view(),
    pa.decimal256(50, 3),
    pa.timestamp("ns"),
    pa.timestamp("s"),
    pa.duration("ns"),
    pa.time64("ns"),
    pa.dictionary(pa.int16(), pa.string()),
    pa.dictionary(pa.int8(), pa.float64()),
    pa.dictionary(pa.uint16(), pa.timestamp("ns")),
    pa.run_end_encoded(pa.int32(), pa.int64()),
    pa.binary(2),
    pa.large_list(struct(z=pa.date32())),
    struct(a=pa.timestamp("ns"), b=pa.duration("s")),
    pa.list_(pa.float32(), 2),
    pa.month_day_nano_interval(),
    pa.null(),
    pa.decimal32(5, 2),
    pa.decimal128(5, -2),
    pa.binary_view(),
    pa.dictionary(pa.uint8(), pa.float16()),
    pa.dictionary(pa.int8(), pa.null()),
    pa.dictionary(pa.int64(), pa.list_(pa.string_view())),
    pa.run_end_encoded(pa.int16(), pa.string_view()),
    pa.run_end_encoded(pa.int64(), struct(a=pa.int8())),
    pa.list_(pa.string_view()),
    pa.list_view(pa.timestamp("ns")),
    pa.large_list_view(pa.dictionary(pa.int8(), pa.string())),
    struct(a=pa.string_view(), b=pa.null()),
    pa.map_(pa.string(), pa.string_view()),
]
