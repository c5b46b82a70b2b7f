from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from juncture.errors import JunctureError, SchemaError, SpecError
from juncture.ordered.domain import Tolerance
from juncture.spec.asof import Asof

LEFT = pa.schema([("ts", pa.int64()), ("robot_id", pa.string()), ("frame_id", pa.int64())])
RIGHT = pa.schema([("ts", pa.int64()), ("robot_id", pa.string()), ("angle", pa.float64()), ("frame_id", pa.int64())])


def on_type(data_type: pa.DataType, **arguments: object):
    schema = pa.schema([("ts", data_type), ("limit", pa.duration("s")), ("count", pa.int64())])
    return Asof(on="ts", **arguments).resolve(schema, pa.schema([("ts", data_type)]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "on= must name exactly one column to order by, but names 0. Pass on="),
        ({"on": []}, "but names 0."),
        ({"on": ["a", "b"], "available_at": "since"}, "on= has 2 columns"),
        ({"left_on": ["a", "b"], "right_on": "c"}, "left_on= names 2 columns, but right_on= names 1"),
        ({"on": "ts", "left_on": "ts"}, "excludes left_on= and right_on=."),
        ({"left_on": "ts"}, "left_on='ts' needs right_on=."),
        ({"on": 5}, "on=5 (int) is not a column name"),
        ({"on": "ts", "by": "k", "right_by": "k"}, "excludes left_by= and right_by=."),
        ({"on": "ts", "by": ["k", "k"]}, "by=['k', 'k'] names a column twice."),
        (
            {"on": "ts", "direction": "backwards"},
            (
                "direction='backwards' is unknown. Expected one of 'backward', 'forward', 'nearest'. "
                "Did you mean 'backward'?"
            ),
        ),
        ({"on": "ts", "how": "outer"}, "how='outer' is unknown. Expected one of 'inner', 'left', 'right', 'full'"),
        ({"on": "ts", "ties": "any"}, "ties='any' is unknown. Expected one of 'greatest', 'first', 'last', 'error'."),
        ({"on": "ts", "nulls_equal": 1}, "nulls_equal=1 (int) is not a boolean."),
        ({"on": "ts", "direction": "nearest", "prefer": "right"}, "Expected one of 'earlier', 'later'."),
        ({"on": "ts", "prefer": "later"}, "prefer='later' needs direction='nearest', but direction='backward'"),
        (
            {"on": "ts", "allow_exact_matches": 1},
            "allow_exact_matches=1 (int) is not a boolean. Expected True or False.",
        ),
        ({"on": "ts", "coalesce": "no"}, "coalesce='no' (str) is not a boolean."),
        ({"on": "ts", "matches": 0}, "matches=0 is not a positive integer."),
        ({"on": "ts", "matches": 1.0}, "matches=1.0 is not a positive integer."),
        ({"on": "ts", "matches": True}, "matches=True is not a positive integer."),
        ({"on": "ts", "suffix": None}, "suffix=None (NoneType) is not a string."),
        ({"on": "ts", "order_by": [5]}, "order_by= contains 5 (int)."),
        ({"on": "ts", "tolerance": -1}, "tolerance=-1 is negative. Expected zero or more"),
        ({"on": "ts", "tolerance": "-5m"}, "tolerance='-5m' is negative."),
        ({"on": "ts", "tolerance": timedelta(seconds=-1)}, "is negative."),
        ({"on": "ts", "tolerance": Decimal("-0.1")}, "is negative."),
        ({"on": "ts", "tolerance": -math.inf}, "tolerance=-inf is negative."),
        ({"on": "ts", "tolerance": math.nan}, "tolerance=nan would match nothing."),
        ({"on": "ts", "tolerance": Decimal("sNaN")}, "tolerance=nan would match nothing"),
        ({"on": "ts", "tolerance": [5]}, "tolerance=[5] (list) is not a distance. Expected a number, a timedelta, a"),
        ({"on": "ts", "tolerance": True}, "tolerance=True (bool) is not a distance."),
    ],
)
def test_arguments_that_fit_no_tables(arguments, said):
    with pytest.raises(SpecError) as error:
        Asof(**arguments)
    assert said in str(error.value)
    assert isinstance(error.value, JunctureError)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"on": "TS"}, "on='TS' is not a column of the left table. Did you mean 'ts'?"),
        (
            {"left_on": "ts", "right_on": "time"},
            ("right_on='time' is not a column of the right table. There are: 'ts', 'robot_id', 'angle', 'frame_id'."),
        ),
        ({"on": "ts", "by": "robot"}, "by='robot' is not a column of the left table. Did you mean"),
        (
            {"on": "ts", "left_by": "robot_id", "right_by": "id"},
            "right_by='id' is not a column of the right table.",
        ),
        (
            {"on": "ts", "order_by": "angel"},
            "order_by='angel' is not a column of the right table. Did you mean 'angle'?",
        ),
        (
            {"left_on": "ts", "right_on": "robot_id"},
            "left 'ts' (int64) with right 'robot_id' (string), which have no common values. Cast one of them",
        ),
        ({"left_on": "robot_id", "right_on": "ts"}, "left 'robot_id' (string) with right 'ts' (int64)"),
        (
            {"on": "ts", "left_by": "robot_id", "right_by": "frame_id"},
            "by= compares left 'robot_id' (string) with right 'frame_id' (int64)",
        ),
        ({"on": "ts", "suffix": ""}, "Right column 'robot_id' would be named 'robot_id', which is already a column."),
    ],
)
def test_arguments_that_do_not_fit_these_tables(arguments, said):
    with pytest.raises(SchemaError) as error:
        Asof(**arguments).resolve(LEFT, RIGHT)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("data_type", "tolerance", "constant"),
    [
        (pa.int64(), 5, 5),
        (pa.int8(), 10**30, 10**30),
        (pa.int64(), 2.9, 2),
        (pa.int64(), Decimal("0.5"), 0),
        (pa.float64(), 5, 5.0),
        (pa.float64(), Decimal("0.1"), 0.1),
        (pa.float32(), 10**350, math.inf),
        (pa.decimal128(10, 2), 5, 500),
        (pa.decimal128(10, 2), Decimal("0.059"), 5),
        (pa.decimal128(10, 2), 0.3, 30),
        (pa.date32(), "36h", 1),
        (pa.date64(), "23h", 0),
        (pa.date32(), timedelta(days=2), 2),
        (pa.timestamp("s"), "5m", 300),
        (pa.timestamp("s"), "1500ms", 1),
        (pa.timestamp("ms"), "1500us", 1),
        (pa.timestamp("us"), timedelta(microseconds=7), 7),
        (pa.timestamp("ns", tz="UTC"), "1us", 1_000),
        (pa.timestamp("us"), "0s", 0),
    ],
)
def test_tolerance_in_steps_of_the_domain(data_type, tolerance, constant):
    resolved = on_type(data_type, tolerance=tolerance).tolerance
    assert resolved == Tolerance(constant=constant)
    assert type(resolved.constant) is type(constant)


@pytest.mark.parametrize("tolerance", [None, math.inf, Decimal("inf"), Decimal("1e9999999")])
def test_no_tolerance_and_an_endless_one_are_the_same(tolerance):
    assert on_type(pa.int64(), tolerance=tolerance).tolerance is None


def test_tolerance_of_the_finer_side():
    left, right = pa.schema([("ts", pa.timestamp("s"))]), pa.schema([("ts", pa.timestamp("ms"))])
    assert Asof(on="ts", tolerance="1500ms").resolve(left, right).tolerance == Tolerance(constant=1_500)


@pytest.mark.parametrize(
    ("data_type", "tolerance", "said"),
    [
        (
            pa.timestamp("us"),
            5,
            "tolerance=5 (int) has no unit, but the on columns are timestamps. Pass a duration, such as",
        ),
        (pa.date32(), 1.5, "tolerance=1.5 (float) has no unit, but the on columns are dates."),
        (pa.int64(), "5s", "tolerance='5s' is a duration, but the on columns are integers. Pass a number"),
        (pa.float64(), timedelta(1), "is a duration, but the on columns are floats. Pass a number"),
        (
            pa.timestamp("us"),
            "five minutes",
            "tolerance='five minutes' is neither a duration, such as \"5m\", nor a column of the left table.",
        ),
        (pa.timestamp("us"), "limt", "nor a column of the left table. Did you mean 'limit'?"),
    ],
)
def test_tolerance_of_another_kind_than_on(data_type, tolerance, said):
    with pytest.raises(SpecError) as error:
        on_type(data_type, tolerance=tolerance)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("on", "limit"),
    [
        (pa.int64(), pa.uint8()),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(10, 2), pa.decimal128(5, 4)),
        (pa.decimal128(10, 2), pa.int32()),
        (pa.date32(), pa.duration("s")),
        (pa.timestamp("s"), pa.duration("ns")),
        (pa.int64(), pa.dictionary(pa.int8(), pa.int64())),
    ],
)
def test_tolerance_column(on, limit):
    schema = pa.schema([("ts", on), ("limit", limit)])
    resolved = Asof(on="ts", tolerance="limit").resolve(schema, pa.schema([("ts", on)]))
    assert resolved.tolerance == Tolerance(column="limit")


@pytest.mark.parametrize(
    ("on", "limit", "wanted"),
    [
        (pa.int64(), pa.float64(), "distances between integers need an integer column. Cast it first."),
        (pa.int64(), pa.duration("s"), "distances between integers need an integer column."),
        (pa.float64(), pa.decimal128(5, 1), "distances between floats need an integer or float column."),
        (pa.decimal128(5, 1), pa.float64(), "distances between decimals need an integer or decimal column."),
        (pa.timestamp("s"), pa.int64(), "distances between timestamps need a duration column."),
        (pa.date32(), pa.string(), "distances between dates need a duration column."),
    ],
)
def test_tolerance_column_of_a_type_that_measures_something_else(on, limit, wanted):
    schema = pa.schema([("ts", on), ("limit", limit)])
    with pytest.raises(SchemaError) as error:
        Asof(on="ts", tolerance="limit").resolve(schema, pa.schema([("ts", on)]))
    assert f"tolerance='limit' is a left column of type {limit}" in str(error.value)
    assert wanted in str(error.value)


def test_a_left_column_named_like_a_duration_goes_first():
    schema = pa.schema([("ts", pa.int64()), ("5m", pa.int64())])
    assert Asof(on="ts", tolerance="5m").resolve(schema, schema.remove(1)).tolerance == Tolerance(column="5m")


def test_resolved_columns():
    resolved = Asof(on="ts", by="robot_id", order_by="frame_id", how="full").resolve(LEFT, RIGHT)
    assert (resolved.left_on, resolved.right_on) == ("ts", "ts")
    assert (resolved.left_by, resolved.right_by) == (("robot_id",), ("robot_id",))
    assert resolved.tie_columns == ("frame_id", "angle")
    assert resolved.right_payload == ("ts", "robot_id", "angle", "frame_id")
    assert resolved.output_schema == pa.schema(
        [
            ("ts", pa.int64()),
            ("robot_id", pa.string()),
            ("frame_id", pa.int64()),
            ("angle", pa.float64()),
            ("frame_id_right", pa.int64()),
        ]
    )
    assert Asof(on="ts", by="robot_id").resolve(LEFT, RIGHT).right_payload == ("angle", "frame_id")
    assert Asof(on="ts", by="robot_id", how="semi").resolve(LEFT, RIGHT).right_payload == ()


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_unions_decide_no_ties(mode):
    union = pa.union([pa.field("number", pa.int64()), pa.field("text", pa.string())], mode)
    right = RIGHT.append(pa.field("x", pa.struct([("parts", pa.list_(union))])))
    with pytest.raises(SchemaError) as error:
        Asof(on="ts").resolve(LEFT, right)
    assert "The right column 'x' is of type struct<parts: list<" in str(error.value)
    assert "unions have no order, but all right columns break ties. Drop it" in str(error.value)
    with pytest.raises(SchemaError, match="or pass ties='error' with matches=1"):
        Asof(on="ts", ties="error", matches=2).resolve(LEFT, right)
    for free in (Asof(on="ts", ties="error"), Asof(on="ts", how="anti")):
        assert free.resolve(LEFT, right).tie_columns[-1] == "x"


def test_keys_and_on_do_not_decide_ties():
    resolved = Asof(on="ts", by="robot_id", order_by=["ts", "robot_id", "angle"]).resolve(LEFT, RIGHT)
    assert resolved.tie_columns == ("angle", "frame_id")


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        ({"on": "ts", "by": "robot_id"}, ["ts", "robot_id", "frame_id", "angle", "frame_id_right"]),
        (
            {"on": "ts", "by": "robot_id", "coalesce": False},
            ["ts", "robot_id", "frame_id", "ts_right", "angle", "frame_id_right"],
        ),
        ({"on": "ts"}, ["ts", "robot_id", "frame_id", "robot_id_right", "angle", "frame_id_right"]),
        (
            {"left_on": "ts", "right_on": "ts", "by": "robot_id"},
            ["ts", "robot_id", "frame_id", "ts_right", "angle", "frame_id_right"],
        ),
        (
            {"left_on": "frame_id", "right_on": "ts", "by": "robot_id", "suffix": ".r"},
            ["ts", "robot_id", "frame_id", "ts.r", "angle", "frame_id.r"],
        ),
        ({"on": "ts", "by": "robot_id", "how": "anti"}, ["ts", "robot_id", "frame_id"]),
    ],
)
def test_output_columns(arguments, columns):
    assert Asof(**arguments).resolve(LEFT, RIGHT).output_schema.names == columns


def test_types_stay_as_they_are():
    data_type = pa.dictionary(pa.int8(), pa.string())
    left = pa.schema([("ts", pa.int16()), ("k", data_type)])
    right = pa.schema([("ts", pa.uint64()), ("k", pa.string()), ("v", pa.run_end_encoded(pa.int32(), pa.int64()))])
    schema = Asof(on="ts", by="k").resolve(left, right).output_schema
    assert schema.types == [pa.int16(), data_type, pa.run_end_encoded(pa.int32(), pa.int64())]


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (Asof(on="ts"), {"kind": "asof", "on": "ts"}),
        (
            Asof(left_on="a", right_on="b", by=["x", "y"], direction="nearest", how="semi", matches=3),
            {
                "kind": "asof",
                "left_on": "a",
                "right_on": "b",
                "by": ["x", "y"],
                "direction": "nearest",
                "how": "semi",
                "matches": 3,
            },
        ),
        (Asof(on="ts", tolerance="90 minutes"), {"kind": "asof", "on": "ts", "tolerance": "90 minutes"}),
        (Asof(on="ts", tolerance=0), {"kind": "asof", "on": "ts", "tolerance": 0}),
        (Asof(on="ts", tolerance=Decimal("0.10")), {"kind": "asof", "on": "ts", "tolerance": {"decimal": "0.10"}}),
        (
            Asof(on="ts", left_by="a", right_by="b", order_by=["c"], ties="error", coalesce=False, suffix="_r"),
            {
                "kind": "asof",
                "on": "ts",
                "left_by": "a",
                "right_by": "b",
                "order_by": ["c"],
                "ties": "error",
                "coalesce": False,
                "suffix": "_r",
            },
        ),
    ],
)
def test_plain_data_and_back(spec, data):
    assert spec.to_dict() == data
    assert Asof.from_dict(data) == spec
    assert hash(Asof.from_dict(data)) == hash(spec)


def test_a_timedelta_comes_back_as_the_same_duration():
    data = Asof(on="ts", tolerance=timedelta(hours=1, milliseconds=5)).to_dict()
    assert data["tolerance"] == "1h5ms"
    assert on_type(pa.timestamp("ms"), tolerance=data["tolerance"]).tolerance == Tolerance(constant=3_600_005)


def test_plain_data_that_is_not_an_as_of_join():
    with pytest.raises(SpecError, match=r"kind='range' is not an as-of join\. Expected kind='asof'\."):
        Asof.from_dict({"kind": "range", "on": "ts"})
    with pytest.raises(SpecError, match=r"has no argument 'tolerence'\. Did you mean 'tolerance'\?"):
        Asof.from_dict({"on": "ts", "tolerence": 5})


def test_a_spec_is_a_value():
    assert Asof(on="ts", by=["a"]) == Asof(on="ts", by=("a",))
    with pytest.raises(FrozenInstanceError):
        Asof(on="ts").on = "other"
