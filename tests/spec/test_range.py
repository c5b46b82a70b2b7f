from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from juncture.errors import JunctureError, SchemaError, SpecError
from juncture.spec.range import Bound, Range

LEFT = pa.schema([("ts", pa.int64()), ("robot_id", pa.string()), ("frame_id", pa.int64())])
RIGHT = pa.schema([("ts", pa.int64()), ("robot_id", pa.string()), ("angle", pa.float64()), ("frame_id", pa.int64())])


def bounds_of(data_type: pa.DataType, **arguments: object) -> tuple[Bound | None, Bound | None]:
    schema = pa.schema([("ts", data_type), ("width", pa.duration("s")), ("count", pa.int64())])
    resolved = Range(on="ts", **arguments).resolve(schema, pa.schema([("ts", data_type)]))
    return resolved.lower, resolved.upper


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"lower": 0}, "on= must name exactly one column to compare, but names 0. Pass on="),
        ({"on": ["a", "b"], "lower": 0}, "but names 2."),
        ({"left_on": "ts", "lower": 0}, "left_on='ts' needs right_on=."),
        ({"on": "ts"}, "lower=None and upper=None leave the window unbounded on both sides. Pass at least"),
        (
            {"on": "ts", "lower": -math.inf, "upper": Decimal("inf")},
            "upper=Decimal('Infinity') leave the window unbounded on both sides",
        ),
        (
            {"on": "ts", "lower": 1, "upper": 0},
            "lower=1 is greater than upper=0, so nothing would match",
        ),
        ({"on": "ts", "lower": math.inf, "upper": Decimal(3)}, "lower=inf is greater than upper=Decimal('3')"),
        (
            {"on": "ts", "lower": timedelta(1), "upper": timedelta(0)},
            "Swap them, or pass a negative bound for rows before the left row.",
        ),
        ({"on": "ts", "lower": math.nan}, "lower=nan would match nothing."),
        ({"on": "ts", "upper": Decimal("NaN")}, "upper=nan would match nothing"),
        (
            {"on": "ts", "upper": True},
            "upper=True (bool) is not a distance. Expected a number, a timedelta, a duration",
        ),
        ({"on": "ts", "lower": [1]}, "lower=[1] (list) is not a distance."),
        (
            {"on": "ts", "lower": 0, "closed": "neither"},
            "closed='neither' is unknown. Expected one of 'both', 'left'",
        ),
        (
            {"on": "ts", "lower": 0, "how": "outer"},
            "how='outer' is unknown. Expected one of 'inner', 'left', 'right'",
        ),
        ({"on": "ts", "lower": 0, "suffix": None}, "suffix=None (NoneType) is not a string."),
        ({"on": "ts", "lower": 0, "by": ["k", "k"]}, "by=['k', 'k'] names a column twice."),
        (
            {"on": "ts", "lower": 0, "agg": {"v": "mean"}, "how": "semi"},
            "how='semi' does not combine with agg=, which returns one row per left row. Pass how='left' (the default)",
        ),
    ],
)
def test_arguments_that_fit_no_tables(arguments, said):
    with pytest.raises(SpecError) as error:
        Range(**arguments)
    assert said in str(error.value)
    assert isinstance(error.value, JunctureError)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"on": "TS"}, "on='TS' is not a column of the left table. Did you mean 'ts'?"),
        (
            {"left_on": "ts", "right_on": "time"},
            "right_on='time' is not a column of the right table.",
        ),
        ({"on": "ts", "by": "robot"}, "by='robot' is not a column of the left table. Did you mean"),
        (
            {"left_on": "ts", "right_on": "robot_id"},
            "The right on column 'robot_id' is of type string, which this join cannot order by.",
        ),
        ({"on": "robot_id"}, "The left on column 'robot_id' is of type string, which this join cannot order by."),
        (
            {"on": "ts", "left_by": "robot_id", "right_by": "frame_id"},
            "by= compares left 'robot_id' (string) with right 'frame_id' (int64)",
        ),
        ({"on": "ts", "suffix": ""}, "Right column 'ts' would be named 'ts', which is already a column."),
        ({"on": "ts", "lower": "robot_id"}, "lower='robot_id' is a left column of type string, but distances between"),
        (
            {"on": "ts", "agg": {"angel": "mean"}},
            "agg='angel' is not a column of the right table. Did",
        ),
    ],
)
def test_arguments_that_do_not_fit_these_tables(arguments, said):
    with pytest.raises(SchemaError) as error:
        Range(**({"lower": 0} | arguments)).resolve(LEFT, RIGHT)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("data_type", "lower", "upper", "ends"),
    [
        (pa.int64(), -5, 0, (-5, 0)),
        (pa.int8(), -(10**30), 10**30, (-(10**30), 10**30)),
        (pa.int64(), -2.5, 2.5, (-2, 2)),
        (pa.int64(), Decimal("0.5"), Decimal("0.5"), (1, 0)),
        (pa.float64(), -5, Decimal("0.1"), (-5.0, 0.1)),
        (pa.float64(), -math.inf, 0, (-math.inf, 0.0)),
        (pa.float32(), 0, 10**350, (0.0, math.inf)),
        (pa.decimal128(10, 2), -5, 0.3, (-500, 30)),
        (pa.decimal128(10, 2), Decimal("-0.059"), Decimal("0.059"), (-5, 5)),
        (pa.date32(), "-36h", "36h", (-1, 1)),
        (pa.date64(), timedelta(days=2), timedelta(days=3), (2, 3)),
        (pa.timestamp("s"), "-5m", 0, (-300, 0)),
        (pa.timestamp("s"), "-1500ms", "-500ms", (-1, -1)),
        (pa.timestamp("us"), "-1h", 0.0, (-3_600_000_000, 0)),
        (pa.timestamp("ns", tz="UTC"), "1us", "1 day", (1_000, 86_400 * 10**9)),
    ],
)
def test_ends_in_steps_of_the_domain(data_type, lower, upper, ends):
    resolved = bounds_of(data_type, lower=lower, upper=upper)
    assert tuple(bound.constant for bound in resolved) == ends
    assert [type(bound.constant) for bound in resolved] == [type(end) for end in ends]


@pytest.mark.parametrize(
    ("lower", "upper", "closed", "belong"),
    [
        (-5, 5, "both", (True, True)),
        (-5, 5, "left", (True, False)),
        (-5, 5, "right", (False, True)),
        (-5, 5, "none", (False, False)),
        (-5.5, 5, "none", (True, False)),
        (-5, 5.5, "left", (True, True)),
    ],
)
def test_an_end_that_is_rounded_belongs_to_the_window(lower, upper, closed, belong):
    assert tuple(bound.closed for bound in bounds_of(pa.int64(), lower=lower, upper=upper, closed=closed)) == belong


def test_open_sides():
    assert bounds_of(pa.int64(), upper=5) == (None, Bound(constant=5))
    assert bounds_of(pa.int64(), lower=5) == (Bound(constant=5), None)
    assert bounds_of(pa.int64(), lower=-math.inf, upper=5) == (None, Bound(constant=5))
    assert bounds_of(pa.int64(), lower=5, upper=Decimal("1e9999999")) == (Bound(constant=5), None)


@pytest.mark.parametrize(
    ("data_type", "arguments", "said"),
    [
        (
            pa.timestamp("us"),
            {"lower": -5},
            "lower=-5 (int) has no unit, but the on columns are timestamps. Pass a duration",
        ),
        (pa.date32(), {"upper": 1.5}, "upper=1.5 (float) has no unit, but the on columns are dates."),
        (
            pa.int64(),
            {"lower": "-5s"},
            "lower='-5s' is a duration, but the on columns are integers. Pass a number",
        ),
        (pa.float64(), {"lower": timedelta(1)}, "is a duration, but the on columns are floats. Pass a number"),
        (
            pa.timestamp("us"),
            {"lower": "an hour"},
            "lower='an hour' is neither a duration, such as \"5m\", nor a column of the left table.",
        ),
        (pa.timestamp("us"), {"upper": "widht"}, "nor a column of the left table. Did you mean 'width'?"),
        (
            pa.timestamp("us"),
            {"lower": "1h", "upper": "-1h"},
            "lower='1h' is greater than upper='-1h', so nothing would match",
        ),
        (pa.timestamp("us"), {"lower": timedelta(1), "upper": "23h"}, "so nothing would match"),
        (pa.timestamp("us"), {"lower": "1ns", "upper": 0}, "lower='1ns' is greater than upper=0"),
        (pa.int64(), {"lower": math.inf}, "lower=inf is beyond all integers, so nothing would match."),
        (
            pa.int64(),
            {"lower": Decimal("-1e999")},
            "lower=Decimal('-1E+999') and upper=None leave the window unbounded on both sides",
        ),
        (pa.date32(), {"upper": -math.inf}, "upper=-inf (float) has no unit"),
    ],
)
def test_bounds_that_do_not_fit_on(data_type, arguments, said):
    with pytest.raises(SpecError) as error:
        bounds_of(data_type, **arguments)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("on", "width"),
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
def test_bounds_that_are_columns(on, width):
    schema = pa.schema([("ts", on), ("1h", width), ("to", width)])
    resolved = Range(on="ts", lower="1h", upper="to", closed="left").resolve(schema, pa.schema([("ts", on)]))
    assert (resolved.lower, resolved.upper) == (Bound(column="1h"), Bound(column="to", closed=False))


@pytest.mark.parametrize(
    ("on", "width", "wanted"),
    [
        (pa.int64(), pa.float64(), "distances between integers need an integer column. Cast it first."),
        (pa.float64(), pa.decimal128(5, 1), "distances between floats need an integer or float column."),
        (pa.decimal128(5, 1), pa.float64(), "distances between decimals need an integer or decimal column."),
        (pa.timestamp("s"), pa.int64(), "distances between timestamps need a duration column."),
        (pa.date32(), pa.string(), "distances between dates need a duration column."),
    ],
)
@pytest.mark.parametrize("argument", ["lower", "upper"])
def test_bounds_that_are_columns_of_a_type_that_measures_something_else(argument, on, width, wanted):
    schema = pa.schema([("ts", on), ("width", width)])
    with pytest.raises(SchemaError) as error:
        Range(on="ts", **{argument: "width"}).resolve(schema, pa.schema([("ts", on)]))
    assert f"{argument}='width' is a left column of type {width}" in str(error.value)
    assert wanted in str(error.value)


def test_how_when_none_is_given():
    assert Range(on="ts", lower=0).resolve(LEFT, RIGHT).how == "inner"
    assert Range(on="ts", lower=0, agg={"angle": "mean"}).resolve(LEFT, RIGHT).how == "left"
    assert Range(on="ts", lower=0, agg={"angle": "mean"}, how="inner").resolve(LEFT, RIGHT).how == "inner"


def test_resolved_columns():
    resolved = Range(on="ts", by="robot_id", lower=0, how="full").resolve(LEFT, RIGHT)
    assert (resolved.left_on, resolved.right_on) == ("ts", "ts")
    assert (resolved.left_by, resolved.right_by) == (("robot_id",), ("robot_id",))
    assert resolved.tie_columns == ("angle", "frame_id")
    assert resolved.right_payload == ("ts", "robot_id", "angle", "frame_id")
    assert resolved.output_schema.names == ["ts", "robot_id", "frame_id", "ts_right", "angle", "frame_id_right"]
    assert Range(on="ts", lower=0, how="semi").resolve(LEFT, RIGHT).output_schema == LEFT


def test_columns_with_aggregates():
    resolved = Range(on="ts", lower=0, agg={"angle": ["max", "count"], "*": "count"}).resolve(LEFT, RIGHT)
    assert resolved.output_schema.names == ["ts", "robot_id", "frame_id", "angle_max", "angle_count", "count"]
    assert resolved.right_payload == ()


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (Range(on="ts", lower="-1h", upper=0), {"kind": "range", "on": "ts", "lower": "-1h", "upper": 0}),
        (
            Range(left_on="a", right_on="b", by=["x"], lower=Decimal("-0.10"), closed="none", how="semi", suffix="_r"),
            {
                "kind": "range",
                "left_on": "a",
                "right_on": "b",
                "by": ["x"],
                "lower": {"decimal": "-0.10"},
                "closed": "none",
                "how": "semi",
                "suffix": "_r",
            },
        ),
        (
            Range(on="ts", upper="width", agg={"decimal": "sum", "v": ["min", "max"]}),
            {"kind": "range", "on": "ts", "upper": "width", "agg": {"decimal": ["sum"], "v": ["min", "max"]}},
        ),
    ],
)
def test_plain_data_and_back(spec, data):
    assert spec.to_dict() == data
    assert Range.from_dict(data) == spec
    assert hash(Range.from_dict(data)) == hash(spec)


def test_a_timedelta_comes_back_as_the_same_duration():
    data = Range(on="ts", lower=timedelta(hours=-1, milliseconds=5)).to_dict()
    assert bounds_of(pa.timestamp("ms"), lower=data["lower"])[0] == Bound(constant=-3_599_995)


def test_plain_data_that_is_not_a_range_join():
    with pytest.raises(SpecError, match=r"kind='asof' is not a range join\. Expected kind='range'\."):
        Range.from_dict({"kind": "asof", "on": "ts"})
    with pytest.raises(SpecError, match=r"Range has no argument 'lowr'\. Did you mean 'lower'\?"):
        Range.from_dict({"on": "ts", "lowr": 5})


def test_a_spec_is_a_value():
    functions = ["mean"]
    spec = Range(on="ts", by=["a"], lower=0, agg={"v": functions})
    functions.append("max")
    assert spec == Range(on="ts", by=("a",), lower=0, agg={"v": "mean"})
    with pytest.raises(FrozenInstanceError):
        spec.on = "other"


WINDOWS = {"1h": ("-1h", 0), "7d": ["-7d", "-1h"], "next": {"upper": "5m", "lower": 0}}


def test_several_windows():
    left, right = (pa.schema([("ts", pa.timestamp("s")), ("v", pa.float64())]) for _ in range(2))
    spec = Range(on="ts", windows=WINDOWS, agg={"v": ["mean", ("quantile", 0.25)], "*": "count"})
    assert Range.from_dict(spec.to_dict()) == spec
    assert spec.to_dict()["windows"]["next"] == {"lower": 0, "upper": "5m"}
    join = spec.resolve(left, right)
    names = ["v_mean", "v_quantile_0_25", "count"]
    assert [each.name for each in join.aggregates] == [f"{name}_{each}" for each in WINDOWS for name in names]
    assert (join.lower, join.upper) == (Bound(constant=-7 * 86_400), Bound(constant=300))
    assert join.in_window("1h").lower == Bound(constant=-3_600)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"windows": {}}, "windows={} is not a mapping of names to windows. Expected for example"),
        ({"windows": {"a": 5}}, "windows['a']=5 is not a window. Expected its two ends, such as"),
        ({"windows": {"a": {"from": 5}}}, "windows['a']={'from': 5} is not a window."),
        ({"windows": {"a": (0, -1)}}, "lower=0 is greater than upper=-1"),
        ({"windows": {"a": (None, None)}}, "leave the window unbounded on both sides"),
        ({"windows": {"a": (0, 1)}, "lower": 0}, "windows= excludes lower= and upper="),
        ({"windows": {"a": (0, 1)}, "agg": None}, "windows= needs agg="),
        ({"windows": {"a": (None, 0), "b": (0, None)}}, "windows= is unbounded on both sides"),
        ({"windows": {"a": ("v", 0)}}, "windows= has the end 'v', which is a left column."),
    ],
)
def test_windows_that_make_no_sense(arguments, said):
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    with pytest.raises(SpecError) as error:
        Range(**({"on": "ts", "agg": {"*": "count"}} | arguments)).resolve(schema, schema)
    assert said in str(error.value)


def test_columns_and_windows_of_any_name_as_plain_data():
    spec = Range(on="ts", windows={"expr": ("-1h", 0), "decimal": (None, 0)}, agg={"expr": "mean", "decimal": "max"})
    assert Range.from_dict(spec.to_dict()) == spec
    one = Range(on="ts", lower=0, upper=1, agg={"expr": "mean"})
    assert Range.from_dict(one.to_dict()) == one
    assert Range.from_dict({"on": "ts", "lower": 0, "agg": {"expr": "mean"}}).agg == {"expr": ("mean",)}
