"""What is Polars' own: types that Arrow does not have, and types of Arrow that Polars does not have."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import polars.testing
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import juncture as jn

RIGHT = pl.DataFrame({"k": [1, 2]})


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("column", "mend"),
    [
        (pl.Series([1, 2**100], dtype=pl.Int128), r"Int128.*Cast it to Int64, or to Decimal\(38, 0\)"),
        (pl.Series([[1], None], dtype=pl.List(pl.Int128)), r"List\(Int128\).*Cast it to Int64"),
        (pl.Series([{"a": 1}, None], dtype=pl.Struct({"a": pl.Int128})), r"Struct.*Int128.*Cast it to Int64"),
        (pl.Series([object(), None], dtype=pl.Object), "Object.*Cast it to a type of Polars' own"),
    ],
)
def test_types_that_arrow_does_not_have(side, column, mend):
    table = pl.DataFrame({"k": [1, 2], "x": column})
    tables = {"left": RIGHT, "right": RIGHT, side: table}
    with pytest.raises(jn.SchemaError, match=f"The {side} column 'x' of Polars type {mend}"):
        jn.join(tables["left"], tables["right"], on="k")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal(1)], pa.decimal256(60, 2)),
        pa.array([[Decimal(1)]], pa.list_(pa.decimal256(60, 2))),
        pa.array([[Decimal(1)]], pa.list_(pa.decimal64(12, 2))),
        pa.array([{"a": None}], pa.struct([("a", pa.decimal32(9))])),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.array([1], pa.timestamp("us", "-01:30")),
        pa.array([1], pa.timestamp("s", "+05:30")).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_polars_does_not_have(column, capfd):
    with pytest.raises(jn.SchemaError, match=r"The column 'x' of type .* has no type in Polars.*\.to_arrow\(\)"):
        jn.plan(RIGHT, pa.table({"k": [1], "x": column}), jn.Equi(on="k"))
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("data_type", [pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.duration("s")], ids=str)
@pytest.mark.parametrize("is_nested", [False, True])
def test_times_that_polars_would_wrap_around(data_type, is_nested):
    column = pa.array([2**63 - 2, None], data_type)
    if is_nested:
        column = pa.array([[{"y": value}] for value in column], pa.list_(pa.struct([("y", data_type)])))
    with pytest.raises(jn.DataError, match=r"'x' of type .* has times beyond the range of milliseconds"):
        jn.join(RIGHT, pa.table({"k": [1, 2], "x": column}), on="k")


def test_encodings_that_polars_does_not_have():
    answer = jn.join(RIGHT, pa.table({"k": [1], "x": pc.run_end_encode(pa.array(["a"]))}), on="k", how="left")
    assert answer["x"].to_list() == ["a", None]


@pytest.mark.parametrize("how", ["right", "full"])
def test_right_keys_fill_left_ones_in_their_type(how):
    sizes = pl.Enum(["small", "large"])
    left = pl.DataFrame({"k": pl.Series(["large"], dtype=sizes)})
    right = pl.DataFrame({"k": pl.Series(["small", "large"], dtype=sizes), "v": [1, 2]})
    answer = jn.join(left, right, on="k", how=how)
    expected = pl.DataFrame({"k": pl.Series(["large", "small"], dtype=sizes), "v": [2, 1]})
    polars.testing.assert_frame_equal(answer, expected)
    other = right.with_columns(pl.Series("k", ["huge", "large"], dtype=pl.Enum(["huge", "large"])))
    with pytest.raises(jn.DataError, match=r"left column 'k' of type Enum.*Cast both columns to one type"):
        jn.join(left, other, on="k", how=how)


def test_aggregates_keep_categories():
    sizes = pl.Enum(["small", "large"])
    right = pl.DataFrame({"k": [1, 1], "size": pl.Series(["small", None], dtype=sizes)})
    answer = jn.join_range(RIGHT, right, on="k", lower=0, upper=0, agg={"size": ["first", "count"]})
    expected = pl.DataFrame({"k": [1, 2], "size_first": pl.Series(["small", None], dtype=sizes), "size_count": [1, 0]})
    polars.testing.assert_frame_equal(answer, expected)


def test_categories_go_into_arrow_and_back():
    sizes = pl.Enum(["small", "large"])
    right = pl.DataFrame({"k": [1], "size": pl.Series(["small"], dtype=sizes)})
    answer = jn.join(RIGHT.to_arrow(), right, on="k")
    assert pl.from_arrow(answer).schema["size"] == sizes


def test_a_series_is_no_table():
    with pytest.raises(
        jn.SpecError, match=r"The left table is a polars.Series, which is a single column.*to_frame\(\)"
    ):
        jn.join(RIGHT["k"], RIGHT, on="k")
