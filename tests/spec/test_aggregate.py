from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.errors import SchemaError, SpecError
from juncture.spec.aggregate import Aggregate, freeze_aggregates, resolve_aggregates
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range

LEFT = pa.schema([("ts", pa.int64())])


def resolved(data_type: pa.DataType, *functions: str) -> list[pa.DataType]:
    right = pa.schema([("v", data_type)])
    return [each.type for each in resolve_aggregates({"v": functions}, LEFT, right, (), "_right")]


@pytest.mark.parametrize(
    ("agg", "said"),
    [
        ({}, "agg={} (dict) is not a mapping of right columns to functions. Expected for example"),
        ("mean", "agg='mean' (str) is not a mapping"),
        ([("v", "mean")], "is not a mapping"),
        ({5: "mean"}, "agg= contains 5 (int)."),
        ({"v": "average"}, "agg['v']='average' is unknown. Expected one of 'count', 'sum', 'mean'"),
        ({"v": "meen"}, "Did you mean 'mean'?"),
        ({"v": []}, "agg['v']=[] is not a function or a list of different functions."),
        ({"v": ["mean", "mean"]}, "is not a function or a list of different functions."),
        ({"v": 5}, "agg['v']=5 is not a function"),
        ({"v": ["mean", 5]}, "agg['v']=5 (int) is unknown."),
        ({"*": "sum"}, 'agg["*"]=\'sum\' is not "count", the only function of'),
    ],
)
def test_arguments_that_fit_no_tables(agg, said):
    with pytest.raises(SpecError) as error:
        freeze_aggregates(agg)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("data_type", "function", "result"),
    [
        (pa.int8(), "sum", pa.int64()),
        (pa.uint32(), "sum", pa.int64()),
        (pa.uint64(), "sum", pa.uint64()),
        (pa.float32(), "sum", pa.float64()),
        (pa.decimal128(10, 2), "sum", pa.decimal128(38, 2)),
        (pa.decimal32(5, 1), "sum", pa.decimal128(38, 1)),
        (pa.decimal256(50, 3), "sum", pa.decimal256(76, 3)),
        (pa.int8(), "mean", pa.float64()),
        (pa.decimal128(10, 2), "std", pa.float64()),
        (pa.string(), "count", pa.int64()),
        (pa.int8(), "min", pa.int8()),
        (pa.timestamp("ns", "UTC"), "max", pa.timestamp("ns", "UTC")),
        (pa.date32(), "min", pa.date32()),
        (pa.duration("s"), "max", pa.duration("s")),
        (pa.dictionary(pa.int8(), pa.int64()), "max", pa.dictionary(pa.int8(), pa.int64())),
        (pa.dictionary(pa.int8(), pa.int64()), "sum", pa.int64()),
        (pa.dictionary(pa.int8(), pa.string()), "first", pa.dictionary(pa.int8(), pa.string())),
        (pa.list_(pa.int64()), "last", pa.list_(pa.int64())),
    ],
)
def test_types(data_type, function, result):
    assert resolved(data_type, function) == [result]


@pytest.mark.parametrize(
    ("data_type", "function", "takes"),
    [
        (pa.string(), "sum", "numbers"),
        (pa.string(), "min", "numbers, dates, timestamps and durations"),
        (pa.bool_(), "mean", "numbers"),
        (pa.timestamp("us"), "mean", "numbers"),
        (pa.duration("us"), "sum", "numbers"),
        (pa.list_(pa.int64()), "max", "numbers, dates, timestamps and durations"),
        (pa.time64("us"), "min", "numbers, dates, timestamps and durations"),
    ],
)
def test_functions_that_a_type_lacks(data_type, function, takes):
    with pytest.raises(SchemaError) as error:
        resolved(data_type, function)
    said = f"agg['v']={function!r} needs {takes}, but the right column 'v' is of type {data_type}. Cast"
    assert said in str(error.value)


def test_names():
    left = pa.schema([("count", pa.int64()), ("v_sum", pa.int64())])
    right = pa.schema([("v", pa.int32()), ("w", pa.string())])
    assert resolve_aggregates({"v": ["sum", "min"], "*": "count", "w": "last"}, left, right, (), ".r") == (
        Aggregate("v_sum.r", "v", "sum", pa.int64()),
        Aggregate("v_min", "v", "min", pa.int32()),
        Aggregate("count.r", None, "count", pa.int64()),
        Aggregate("w_last", "w", "last", pa.string()),
    )
    with pytest.raises(
        SchemaError, match=r"'v'\]='sum' would be named 'v_sum', which is already a column\. Pass another"
    ):
        resolve_aggregates({"v": "sum"}, left, right, (), "")


def test_a_column_that_is_not_there():
    with pytest.raises(SchemaError, match=r"agg='val' is not a column of the right table\. Did you mean"):
        resolve_aggregates({"val": "sum"}, LEFT, pa.schema([("value", pa.int64())]), (), "_right")


def test_first_and_last_need_an_order_of_all_that_decides_ties():
    union = pa.list_(pa.dense_union([pa.field("number", pa.int64()), pa.field("text", pa.string())]))
    left, right = pa.schema([("t", pa.int64())]), pa.schema([("t", pa.int64()), ("v", pa.int64()), ("x", union)])
    assert Range(on="t", lower=0, agg={"v": "max", "x": "count"}).resolve(left, right).tie_columns == ("v", "x")
    spans = {"left_interval": ("t", None), "right_interval": ("t", None)}
    for spec in (Range(on="t", lower=0, agg={"v": "first"}), Overlap(**spans, agg={"v": "last"})):
        with pytest.raises(
            SchemaError,
            match=r"right column 'x' is of type list<.*unions have no order, but all right columns break ties",
        ):
            spec.resolve(left, right)
