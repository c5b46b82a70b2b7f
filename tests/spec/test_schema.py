from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.columnar.schemas import check_columns
from juncture.columnar.types import plain_type
from juncture.errors import SchemaError, did_you_mean
from juncture.ordered.numbers import Decimals, Floats, Integers
from juncture.ordered.times import Dates, Timestamps
from juncture.spec.compared import ComparedColumns, check_keys, output_columns
from juncture.spec.equi import Equi
from juncture.spec.schema import common_domain


def one(data_type: pa.DataType, name: str = "ts") -> pa.Field:
    return pa.field(name, data_type)


@pytest.mark.parametrize(
    ("left", "right", "domain"),
    [
        (pa.int8(), pa.uint64(), Integers()),
        (pa.float32(), pa.float64(), Floats()),
        (pa.float16(), pa.float64(), Floats()),
        (pa.decimal128(10, 2), pa.decimal128(38, 5), Decimals(5)),
        (pa.decimal256(60, 0), pa.decimal32(5, 1), Decimals(1)),
        (pa.date32(), pa.date64(), Dates()),
        (pa.timestamp("s"), pa.timestamp("ns"), Timestamps("ns")),
        (pa.timestamp("ms"), pa.timestamp("us"), Timestamps("us")),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("us", tz="Asia/Tokyo"), Timestamps("us")),
        (pa.dictionary(pa.int8(), pa.int64()), pa.int32(), Integers()),
        (pa.run_end_encoded(pa.int32(), pa.date32()), pa.date32(), Dates()),
    ],
)
def test_types_that_compare(left, right, domain):
    assert common_domain(one(left), one(right)) == domain
    assert common_domain(one(right), one(left)) == domain


@pytest.mark.parametrize(
    ("domain", "step_ns"),
    [
        (Dates(), 86_400 * 10**9),
        (Timestamps("s"), 10**9),
        (Timestamps("ms"), 10**6),
        (Timestamps("us"), 1_000),
        (Timestamps("ns"), 1),
    ],
)
def test_steps_of_time(domain, step_ns):
    assert domain.is_time
    assert domain.step_ns == step_ns


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (
            pa.int64(),
            pa.float64(),
            ["left 'ts' (int64)", "right 'time' (double)", "Cast one of them"],
        ),
        (pa.int64(), pa.timestamp("us"), ["'ts' (int64)", "'time' (timestamp[us])"]),
        (pa.date32(), pa.timestamp("us"), ["'ts' (date32[day])", "'time' (timestamp[us])"]),
        (pa.decimal128(5, 2), pa.int64(), ["'ts' (decimal128(5, 2))", "'time' (int64)"]),
        (
            pa.string(),
            pa.int64(),
            ["The left on column 'ts' is of type string", "Cast it to an integer, float"],
        ),
        (pa.int64(), pa.bool_(), ["The right on column 'time' is of type bool"]),
        (pa.time64("us"), pa.time64("us"), ["The left on column 'ts' is of type time64[us]"]),
        (pa.duration("s"), pa.duration("s"), ["The left on column 'ts' is of type duration[s]"]),
        (pa.list_(pa.int64()), pa.int64(), ["The left on column 'ts' is of type list<"]),
        (
            pa.timestamp("us"),
            pa.timestamp("us", tz="UTC"),
            [
                "but only one of them has a time zone",
                "left 'ts' (timestamp[us])",
                "right 'time' (timestamp[us, tz=UTC])",
                "Add a time zone to the other",
            ],
        ),
        (pa.timestamp("ns", tz="Europe/Berlin"), pa.timestamp("s"), ["but only one of them has a time zone"]),
    ],
)
def test_types_that_do_not_compare(left, right, said):
    with pytest.raises(SchemaError) as error:
        common_domain(one(left), one(right, "time"))
    for part in said:
        assert part in str(error.value)


def test_plain_type_looks_through_encodings():
    assert plain_type(pa.dictionary(pa.int8(), pa.string())) == pa.string()
    assert plain_type(pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int8(), pa.string()))) == pa.string()
    assert plain_type(pa.list_(pa.int8())) == pa.list_(pa.int8())


def test_missing_column():
    schema = pa.schema([("ts", pa.int64()), ("robot_id", pa.string())])
    check_columns(schema, ["ts", "robot_id"], argument="by", side="left")
    with pytest.raises(SchemaError) as error:
        check_columns(schema, ["robotid"], argument="by", side="left")
    assert error.value.message == ("by='robotid' is not a column of the left table. Did you mean 'robot_id'?")
    with pytest.raises(SchemaError, match=r"right table\. There are: 'ts', 'robot_id'\."):
        check_columns(schema, ["zzz"], argument="right_on", side="right")
    with pytest.raises(SchemaError, match=r"There are none\."):
        check_columns(pa.schema([]), ["ts"], argument="on", side="left")


def test_repeated_column_even_if_the_join_does_not_name_it():
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64()), ("v", pa.string())])
    with pytest.raises(SchemaError) as error:
        check_columns(schema, ["ts"], argument="on", side="right")
    assert "The right table has 2 columns named 'v'" in str(error.value)
    assert "Rename or drop all but one of them." in str(error.value)


def test_a_hint_ignores_case_and_stays_short():
    assert did_you_mean("TS", ["ts", "value"]) == "Did you mean 'ts'?"
    assert did_you_mean("zzz", [f"column_{i}" for i in range(20)]).endswith("'column_11', ….")


SAME_KEYS = [
    (pa.int8(), pa.uint64()),
    (pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal256(50, 10)),
    (pa.date32(), pa.date64()),
    (pa.timestamp("s"), pa.timestamp("ns")),
    (pa.timestamp("s", tz="UTC"), pa.timestamp("us", tz="Asia/Tokyo")),
    (pa.string(), pa.large_string()),
    (pa.string(), pa.string_view()),
    (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.binary(), pa.binary(4)),
    (pa.bool_(), pa.bool_()),
    (pa.time32("s"), pa.time64("ns")),
    (pa.list_(pa.int8()), pa.large_list(pa.int64())),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), pa.struct([("a", pa.int64()), ("b", pa.large_string())])),
]


@pytest.mark.parametrize(("left", "right"), SAME_KEYS)
def test_keys_that_can_be_equal(left, right):
    join = Equi(left_on="k", right_on="id").resolve(pa.schema([("k", left)]), pa.schema([("id", right)]))
    assert join.output_schema == pa.schema([("k", left)])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.string()),
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.decimal128(10, 0)),
        (pa.bool_(), pa.int8()),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.timestamp("us")),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
        (pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
    ],
)
def test_keys_that_cannot_be_equal(left, right):
    with pytest.raises(SchemaError) as error:
        check_keys(ComparedColumns(pa.schema([("k", left)]), pa.schema([("id", right)])), [("k", "id")])
    assert error.value.message == (
        f"by= compares left 'k' ({left}) with right 'id' ({right}), which have no common values. "
        "Cast one of them to the type of the other."
    )


def test_keys_of_which_one_has_a_time_zone():
    left, right = pa.schema([("k", pa.timestamp("us"))]), pa.schema([("id", pa.timestamp("us", tz="UTC"))])
    with pytest.raises(SchemaError) as error:
        check_keys(ComparedColumns(left, right), [("k", "id")])
    assert error.value.name == "JN-TIMEZONE-MISMATCH"
    for part in ("'k' (timestamp[us])", "'id' (timestamp[us, tz=UTC])", "only one of them has a time zone"):
        assert part in error.value.message


def test_maps_are_no_keys():
    data_type = pa.map_(pa.string(), pa.int64())
    for nested in (data_type, pa.list_(data_type), pa.struct([("a", data_type)])):
        with pytest.raises(SchemaError, match=r"'k' is of type .*, and maps have no equality"):
            check_keys(ComparedColumns(pa.schema([("k", nested)]), pa.schema([("k", nested)])), [("k", "k")])


def test_a_name_taken_by_a_renamed_column_is_taken():
    left, right = pa.schema([("v", pa.int64())]), pa.schema([("v", pa.int64()), ("v_right", pa.int64())])
    columns = output_columns(ComparedColumns(left, right), how="left", equal=[], suffix="_right")
    assert [(column.name, column.source) for column in columns[1:]] == [("v_right", "v"), ("v_right_right", "v_right")]


@pytest.mark.parametrize(
    "data_type",
    [pa.month_day_nano_interval(), pa.list_(pa.month_day_nano_interval()), pa.sparse_union([pa.field("a", pa.int8())])],
)
def test_other_types_without_equality_are_no_keys(data_type):
    with pytest.raises(SchemaError, match=r"The left by column 'k' is of type .*, which has no equality"):
        check_keys(ComparedColumns(pa.schema([("k", data_type)]), pa.schema([("k", data_type)])), [("k", "k")])


LEFT = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
RIGHT = pa.schema([("v", pa.float64()), ("k", pa.string()), ("ts", pa.int64()), ("w", pa.float64())])


def names(how: str = "left", equal: list[tuple[str, str]] | None = None, suffix: str = "_right") -> list[str]:
    equal = [("k", "k"), ("ts", "ts")] if equal is None else equal
    return [column.name for column in output_columns(ComparedColumns(LEFT, RIGHT), how=how, equal=equal, suffix=suffix)]


def test_output_is_the_left_columns_then_the_right_ones_that_say_something_new():
    assert names() == ["ts", "k", "v", "v_right", "w"]
    assert names(equal=[("k", "k")]) == ["ts", "k", "v", "v_right", "ts_right", "w"]
    assert names(equal=[]) == ["ts", "k", "v", "v_right", "k_right", "ts_right", "w"]
    assert names(suffix="_r") == ["ts", "k", "v", "v_r", "w"]


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_semi_and_anti_have_the_left_columns_only(how):
    assert names(how) == ["ts", "k", "v"]


@pytest.mark.parametrize(("how", "fills"), [("right", True), ("full", True), ("left", False), ("inner", False)])
def test_unmatched_right_rows_fill_the_columns_that_agree(how, fills):
    columns = output_columns(ComparedColumns(LEFT, RIGHT), how=how, equal=[("k", "k"), ("ts", "ts")], suffix="_right")
    assert [column.filled_from for column in columns[:3]] == (["ts", "k", None] if fills else [None] * 3)


def test_a_column_never_holds_two_types():
    right = RIGHT.set(1, pa.field("k", pa.large_string()))
    output_columns(ComparedColumns(LEFT, right), how="left", equal=[("k", "k")], suffix="_right")
    with pytest.raises(SchemaError) as error:
        output_columns(ComparedColumns(LEFT, right), how="full", equal=[("k", "k")], suffix="_right")
    assert "how='full' writes 'k' (large_string) of unmatched right rows into the left column" in str(error.value)
    assert "left column 'k' (string)" in str(error.value)


@pytest.mark.parametrize(
    ("left", "right", "suffix"),
    [
        (["v", "v_right"], ["v"], "_right"),
        (["v"], ["v_right", "v"], "_right"),
        (["v"], ["v"], ""),
    ],
)
def test_a_name_that_is_taken_with_its_suffix_too(left, right, suffix):
    schemas = [pa.schema([(name, pa.int64()) for name in side]) for side in (left, right)]
    with pytest.raises(SchemaError, match=r"which is already a column\. Pass another suffix= \(now "):
        output_columns(ComparedColumns(*schemas), how="left", equal=[], suffix=suffix)
