"""What is pandas' own: the index, names that are no text, values of several types, types with no mark for missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.types as pat
import pytest

import juncture as jn
from support.arrays import build

BEYOND_FLOATS = 2**53 + 1
RIGHT = pd.DataFrame({"at": [2, 3, 9], "w": [20, 30, 90]})


def left_with(index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame({"ts": [3, 1, 9], "v": ["x", "y", "z"]}, index=index)


INDEXES = {
    "numbers": pd.Index([BEYOND_FLOATS, 7, 7]),
    "range": pd.RangeIndex(5, 11, 2),
    "named range": pd.RangeIndex(3, name="row"),
    "text": pd.Index(["a", "b", "a"], name="label"),
    "text of pandas": pd.Index(["a", "b", "a"], dtype="string", name="label"),
    "times": pd.DatetimeIndex(["2026-01-01", "2026-01-03", "2026-01-02"], tz="Europe/Berlin", name="day"),
    "periods": pd.PeriodIndex(["2026-01", "2026-03", "2026-02"], freq="M"),
    "intervals": pd.IntervalIndex.from_breaks([0.0, 1.0, 2.5, 3.0]),
    "categories": pd.CategoricalIndex(["b", "a", "b"], categories=["b", "a"], ordered=True),
    "nullable": pd.Index([1, None, BEYOND_FLOATS], dtype="Int64"),
    "objects": pd.Index([1, "one", (1, 2)], dtype=object),
    "levels": pd.MultiIndex.from_tuples([(BEYOND_FLOATS, "a"), (1, "b"), (1, "c")], names=["id", None]),
    "levels of one name": pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["id", "id"]),
    "levels named by numbers": pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=[0, ("a", "b")]),
    "level named as a column": pd.Index([7, 8, 9], name="v"),
}


@pytest.mark.parametrize("how", ["left", "inner", "semi", "anti"])
@pytest.mark.parametrize("name", INDEXES)
def test_the_left_index_goes_with_its_rows(name, how):
    left = left_with(INDEXES[name])
    answer = jn.join(left, RIGHT, left_on="ts", right_on="at", how=how)
    rows = {"left": [0, 1, 2], "inner": [0, 2], "semi": [0, 2], "anti": [1]}[how]
    pd.testing.assert_index_equal(answer.index, left.index.take(rows), exact=True)
    pd.testing.assert_frame_equal(answer[["ts", "v"]], left.take(rows))


@pytest.mark.parametrize("name", INDEXES)
def test_a_row_without_a_left_row_has_no_label(name):
    left = left_with(INDEXES[name])
    answer = jn.join(left, RIGHT, left_on="ts", right_on="at", how="full", coalesce=False)
    assert answer["at"].isna().tolist() == [False, True, False, False]
    assert answer.index.names == left.index.names
    labels = answer.index.to_list()
    assert repr(labels[:3]) == repr(left.index.to_list())
    last = labels[3] if isinstance(labels[3], tuple) else (labels[3],)
    assert all(pd.isna(part) for part in last)


@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
def test_the_usual_index_begins_anew(how):
    answer = jn.join(left_with(pd.RangeIndex(3)), RIGHT, left_on="ts", right_on="at", how=how)
    pd.testing.assert_index_equal(answer.index, pd.RangeIndex(len(answer)), exact=True)


def test_matches_repeat_the_label_of_their_left_row():
    left = left_with(pd.Index(["a", "b", "c"], name="label"))
    answer = jn.join_where(left, RIGHT, "l.ts >= r.at")
    assert answer.index.to_list() == ["a", "a", "c", "c", "c"]
    aggregates = jn.join_range(left, RIGHT, left_on="ts", right_on="at", lower=-9, upper=0, agg={"w": "max"})
    assert aggregates.index.to_list() == ["a", "b", "c"]
    assert aggregates["w_max"].tolist() == [30, pd.NA, 90]


def test_a_named_level_is_a_column_to_join_by():
    left = pd.DataFrame({"v": [1, 2, 3]}, index=pd.Index([3, 1, 9], name="ts"))
    right = pd.DataFrame({"ts": [2, 3, 9], "w": [20, 30, 90]})
    asof = jn.join_asof(left, right, on="ts", how="full")
    assert asof.columns.to_list() == ["v", "w"]
    pd.testing.assert_index_equal(asof.index, pd.Index([3, 1, 9, 2], name="ts"))
    assert jn.join(left, right, on="ts")["w"].to_list() == [30, 90]
    assert jn.join_range(left, right, on="ts", lower=0, upper=0)["ts_right"].to_list() == [3, 9]
    assert jn.join_where(left, right, "l.ts = r.ts")["ts_right"].to_list() == [3, 9]
    levels = left.set_index("v", append=True)
    assert jn.join_asof(levels, right, on="ts", how="inner").index.to_list() == [(3, 1), (9, 3)]


def test_a_level_that_a_column_is_named_like_is_none_to_join_by():
    left = pd.DataFrame({"ts": [2, 3]}, index=pd.Index([9, 9], name="ts"))
    answer = jn.join(left, RIGHT, left_on="ts", right_on="at")
    assert answer["w"].to_list() == [20, 30]
    assert answer.index.to_list() == [9, 9]


def test_the_right_index_is_left_out():
    left = left_with(pd.RangeIndex(3))
    right = RIGHT.set_index("at")
    with pytest.raises(jn.SchemaError, match=r"on='at' is not a column.*Make it a column with .reset_index\(\) first"):
        jn.join_asof(left.rename(columns={"ts": "at"}), right, on="at")
    with pytest.raises(jn.SchemaError, match=r"'at' is not a column of the table 'r'.*reset_index\(\)"):
        jn.join_where(left, right, "l.ts = r.at")
    answer = jn.join(left, right.assign(key=[3, 9, 9]), left_on="ts", right_on="key")
    assert answer.columns.to_list() == ["ts", "v", "w"]


def test_a_level_of_values_of_several_types_is_carried_but_no_column():
    left = left_with(pd.Index([1, "one", None], name="label"))
    assert jn.join(left, RIGHT, left_on="ts", right_on="at").index.to_list() == [1, None]
    with pytest.raises(jn.SchemaError, match=r"'label' is not a column of the left table.*reset_index\(\)"):
        jn.join(left, RIGHT, left_on="label", right_on="at")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, "a", None], "object"),
        ([b"a", "a", 1.5], "object"),
        ([2**70, 1, 2], "object"),
        ([1j, 2j, 3j], "complex128"),
        (list(pd.period_range("2026", periods=3)), "object"),
    ],
)
def test_values_that_no_one_type_holds(side, values, dtype):
    table = pd.DataFrame({"k": [1, 2, 3], "mixed": pd.Series(values, dtype=dtype)})
    tables = {"left": RIGHT.rename(columns={"at": "k"}), "right": RIGHT.rename(columns={"at": "k"}), side: table}
    with pytest.raises(jn.SchemaError, match=rf"The {side} column 'mixed' of pandas type {dtype} has values .*astype"):
        jn.join(tables["left"], tables["right"], on="k")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["k", "a", "a"], "2 columns named 'a'"),
        (["k", 0, "a"], r"a column named 0 \(int\)"),
        (pd.MultiIndex.from_tuples([("k", "a"), ("k", "b"), ("c", "")]), r"a column named \('k', 'a'\) \(tuple\)"),
    ],
)
def test_names_that_find_no_column(side, columns, message):
    table = pd.DataFrame([[1, 2, 3]], columns=columns)
    tables = {"left": RIGHT, "right": RIGHT, side: table}
    with pytest.raises(jn.SchemaError, match=f"The {side} table has {message}"):
        jn.join(tables["left"], tables["right"], left_on="k" if side == "left" else "at", right_on="at")


def test_the_types_of_aggregates():
    left = pd.DataFrame({"ts": [1, 5]})
    columns = {
        "plain": np.array([BEYOND_FLOATS, 1], np.int64),
        "nullable": pd.array([3, None], dtype="Int8"),
        "arrow": pd.array([3, None], dtype="int16[pyarrow]"),
        "text": pd.array(["b", None], dtype="string"),
        "sparse": pd.arrays.SparseArray([1.5, np.nan]),
        "category": pd.Categorical(["b", "a"]),
        "object": np.array([1.5, None], object),
    }
    right = pd.DataFrame({"at": [1, 1], **columns})
    agg = {name: ["count", "first"] for name in columns} | {name: ["sum", "max", "mean"] for name in [*columns][:3]}
    answer = jn.join_range(left, right, left_on="ts", right_on="at", lower=0, upper=0, agg=agg)
    dtypes = {name: str(dtype) for name, dtype in answer.dtypes.items()}
    assert dtypes == {
        "ts": "int64",
        "plain_sum": "Int64",
        "plain_max": "Int64",
        "plain_mean": "float64",
        "nullable_sum": "Int64",
        "nullable_max": "Int8",
        "nullable_mean": "Float64",
        "arrow_sum": "int64[pyarrow]",
        "arrow_max": "int16[pyarrow]",
        "arrow_mean": "double[pyarrow]",
        "text_count": "int64",
        "text_first": "string",
        "sparse_count": "int64",
        "sparse_first": "Sparse[float64, nan]",
        "category_count": "int64",
        "category_first": "category",
        "object_count": "int64",
        "object_first": "object",
    }
    assert answer["plain_max"].to_list() == [BEYOND_FLOATS, pd.NA]


def test_right_columns_of_arrow_are_exact_in_pandas():
    left = pd.DataFrame({"ts": [1, 2]})
    columns = {
        "whole": pa.array([BEYOND_FLOATS]),
        "small": pa.array([255], pa.uint8()),
        "truth": pa.array([True]),
        "list": pa.array([[BEYOND_FLOATS, None]]),
    }
    answer = jn.join(left, pa.table({"ts": [1], **columns}), on="ts", how="left")
    assert [str(dtype) for dtype in answer.dtypes] == ["int64", "Int64", "UInt8", "boolean", "object"]
    assert answer["whole"].to_list() == [BEYOND_FLOATS, pd.NA]
    assert answer["list"][0].tolist() == [BEYOND_FLOATS, None]


def test_aggregates_of_intervals_and_lists():
    left = pd.DataFrame({"ts": [1, 2, 6]})
    columns = {
        "whole": pd.arrays.IntervalArray.from_breaks([0, 1, 2]),
        "real": pd.arrays.IntervalArray.from_breaks([0.0, 0.5, 2.0]),
        "list": [[3], [1, 2]],
        "array": [np.array([3]), np.array([1, 2])],
    }
    right = pd.DataFrame({"ts": [1, 2]} | columns)
    answer = jn.join_range(left, right, on="ts", lower=0, upper=0, agg=dict.fromkeys(columns, "first"))
    # No interval of whole numbers is missing.
    assert answer["whole_first"].to_list() == [*right["whole"], None]
    assert answer["real_first"].dtype == right["real"].dtype
    assert answer["real_first"].isna().to_list() == [False, False, True]
    assert answer["list_first"].to_list() == [[3], [1, 2], None]
    assert [type(value) for value in answer["array_first"]] == [np.ndarray, np.ndarray, type(None)]


@pytest.mark.parametrize("make", [list, np.array])
def test_right_keys_of_lists_come_as_those_of_the_left_are(make):
    left, right = (
        pd.DataFrame({"k": [make(value) for value in values]})
        for values in ([[1, 0], [2, 0]], [[2, 0], [3, 4], [5, 6]])
    )
    answer = jn.join(left, right, on="k", how="full")
    assert [type(value) for value in answer["k"]] == [type(make([]))] * 4
    assert [list(value) for value in answer["k"]] == [[1, 0], [2, 0], [3, 4], [5, 6]]


# Values of types of which Arrow takes no rows, or other ones, where a column has several chunks.
HALVES = [np.float16(0.5), np.float16(1000)]
UNTAKEN = {
    "dictionary of half floats": (pa.dictionary(pa.int32(), pa.float16()), HALVES),
    "dictionary of lists": (pa.dictionary(pa.int8(), pa.list_(pa.int64())), [[1], [None, 2]]),
    "dictionary of views": (pa.dictionary(pa.int8(), pa.string_view()), ["a", "b"]),
    "list of views": (pa.list_(pa.string_view()), [["a"], [None, "b"]]),
    "struct of list views": (pa.struct({"a": pa.list_view(pa.int64())}), [{"a": [1]}, {"a": None}]),
}


def untaken_column(name: str, places: list[int | None]) -> pd.Series:
    """Return values of a type, each in a chunk of its own."""
    data_type, values = UNTAKEN[name]

    def chunk(place: int | None) -> pa.Array:
        if place is None:
            return pa.nulls(1, data_type)
        if not pat.is_dictionary(data_type):
            return pa.array([values[place]], data_type)
        items = pa.array([values[place]], data_type.value_type)
        return pa.DictionaryArray.from_arrays(pa.array([0], data_type.index_type), items)

    column = pa.chunked_array([chunk(place) for place in places], data_type)
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


@pytest.mark.parametrize("name", UNTAKEN)
def test_columns_of_which_arrow_takes_no_rows(name):
    left = pd.DataFrame({"ts": [3, 1, 2], "v": untaken_column(name, [1, None, 0])})
    right = pd.DataFrame({"ts": [2, 3, 9], "w": untaken_column(name, [1, 0, None])})
    answer = jn.join(left, right, on="ts", how="full")
    assert answer.dtypes.to_list() == [np.dtype("int64"), left["v"].dtype, right["w"].dtype]
    assert untaken_cells(answer["v"]) == untaken_cells(untaken_column(name, [1, None, 0, None]))
    assert untaken_cells(answer["w"]) == untaken_cells(untaken_column(name, [0, None, 1, None]))


@pytest.mark.parametrize("name", UNTAKEN)
def test_keys_of_which_arrow_takes_no_rows(name):
    left, right = (untaken_column(name, places).to_frame("k") for places in ([0, None, 0], [1, 0]))
    answer = jn.join(left, right, on="k", how="full")
    assert answer["k"].dtype == left["k"].dtype
    assert untaken_cells(answer["k"]) == untaken_cells(untaken_column(name, [0, None, 0, 1]))


def untaken_cells(column: pd.Series) -> list[Any]:
    return [cell for chunk in pa.chunked_array(pa.array(column.array)).chunks for cell in chunk.to_pylist()]


def test_structs_of_fields_that_are_never_null_as_keys():
    data_type = pa.struct([pa.field("id", pa.int64(), nullable=False)])
    left, right = (
        pd.DataFrame({"k": pd.arrays.ArrowExtensionArray(pa.chunked_array([build(values, data_type)]))})
        for values in ([{"id": 1}, None], [None, {"id": 2}])
    )
    answer = jn.join(left, right, on="k", how="full")
    assert answer["k"].dtype == left["k"].dtype
    assert untaken_cells(answer["k"]) == [{"id": 1}, None, None, {"id": 2}]


# The values of a left and a right key, whose second values are equal, or else missing and so equal nothing.
FILLED = {
    "narrow": (np.array([1, 2], np.int32), np.array([3, 2], np.int32)),
    "nullable": (pd.array([BEYOND_FLOATS, None], dtype="Int64"), pd.array([BEYOND_FLOATS - 2, None], dtype="Int64")),
    "whole and nullable": (np.array([BEYOND_FLOATS, 2]), pd.array([None, 2], dtype="Int64")),
    "times": (pd.to_datetime(["2026", None]), pd.to_datetime(["2027", None])),
    "categories": (pd.Categorical(["b", "a"], ["b", "a"]), pd.Categorical(["c", "a"])),
    "ordered": (pd.Categorical(["b", "a"], ["b", "c", "a"], ordered=True), pd.Categorical(["c", "a"])),
    "categories of far times": tuple(
        pd.Categorical(np.array(years, "datetime64[us]")) for years in (["90000", "2026"], ["2027", "2026"])
    ),
    "objects": (np.array(["x", None], object), np.array(["y", None], object)),
    "text": (pd.array(["x", None], dtype="string"), pd.array(["y", None], dtype="string")),
    "of Arrow": (pd.array([1, 2], dtype="int64[pyarrow]"), pd.array([3, 2], dtype="int64[pyarrow]")),
    "sparse": (pd.arrays.SparseArray([1.5, np.nan]), pd.arrays.SparseArray([2.5, np.nan])),
    "periods": (pd.array(["2026", None], dtype="period[D]"), pd.array(["2027", None], dtype="period[D]")),
}


@pytest.mark.parametrize("how", ["right", "full"])
@pytest.mark.parametrize("name", FILLED)
def test_right_keys_fill_left_ones_in_their_type(name, how):
    ours, theirs = (pd.Series(values) for values in FILLED[name])
    answer = jn.join(ours.to_frame("k"), theirs.to_frame("k"), on="k", how=how)["k"]
    equal = [] if pd.isna(ours[1]) else [1]
    shown = [0, 1] if how == "full" else equal
    unmatched = [0] if equal else [0, 1]
    assert repr(answer.to_list()) == repr([*ours[shown].to_list(), *theirs[unmatched].to_list()])
    dtype = "Int64" if name == "whole and nullable" else ours.dtype
    if isinstance(dtype, pd.CategoricalDtype) and not dtype.ordered:
        dtype = pd.CategoricalDtype(dtype.categories.append(pd.Index(theirs[unmatched])))
    assert answer.dtype == dtype


def test_a_value_without_a_place_in_an_order_does_not_fill_a_key():
    left = pd.DataFrame({"k": pd.Categorical(["b", "a"], ["b", "a"], ordered=True)})
    right = pd.DataFrame({"k": pd.Categorical(["c"])})
    with pytest.raises(
        jn.DataError, match=r"left column 'k' is an ordered category without 'c'.*Add 'c' to the categories"
    ):
        jn.join(left, right, on="k", how="full")


def test_batches_are_arrow_with_named_levels():
    left = left_with(pd.Index(["a", "b", "c"], name="label"))
    batches = jn.plan(left, RIGHT, jn.Equi(left_on="ts", right_on="at")).batches()
    assert batches.schema.names == ["ts", "v", "label", "w"]
    assert not batches.schema.metadata
    assert batches.read_all()["label"].to_pylist() == ["a", "c"]


def test_the_answer_is_no_view_of_the_left_table():
    left = pd.DataFrame({"ts": [1, 2]})
    answer = jn.join_asof(left, pl.DataFrame({"ts": [1]}), on="ts")
    answer.loc[0, "ts"] = 7
    assert left["ts"].to_list() == [1, 2]


def test_a_series_is_no_table():
    table = pd.DataFrame({"ts": [1]})
    with pytest.raises(
        jn.SpecError, match=r"The right table is a pandas.Series, which is a single column.*to_frame\(\)"
    ):
        jn.join_asof(table, table["ts"], on="ts")


def test_categories_that_pandas_has_no_index_for_are_refused():
    halves = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array([np.float16(1)]))
    with pytest.raises(jn.SchemaError, match=r"'w'.*has no type in pandas.*float16 indexes"):
        jn.join(pd.DataFrame({"k": [1]}), pa.table({"k": [1], "w": halves}), on="k")


def test_categories_do_not_take_nested_values():
    """An empty table's categories may be of any type, so that they are equal to lists by their schemas."""
    left = pd.DataFrame({"k": pd.Categorical([]), "x": pd.Series([], dtype="int64")})
    with pytest.raises(
        jn.SchemaError, match=r"'k' is a category, which cannot contain values of type .*list<.*Cast it to object"
    ):
        jn.join(left, pa.table({"k": [[1], [2]]}), on="k", how="full")
