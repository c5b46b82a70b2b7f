"""The same data answers the same in every library; `docs/reference/semantics.md` names the differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import juncture as jn

NAN = float("nan")
VALUES = [1.0, None, NAN]


def floats(library: str) -> dict[str, Any]:
    """Return a column of 1, null and NaN, and which of its values are null."""
    objects = np.empty(3, object)
    objects[:] = VALUES
    columns = {
        "arrow": (pa.array(VALUES), [False, True, False]),
        "polars": (pl.Series(VALUES), [False, True, False]),
        "pandas": (np.array([1.0, NAN, NAN]), [False, True, True]),
        "pandas objects": (objects, [False, True, True]),
        "pandas sparse": (pd.arrays.SparseArray([1.0, NAN, NAN]), [False, True, True]),
        "pandas nullable": (
            pd.arrays.FloatingArray(np.array([1.0, 0.0, NAN]), np.array([False, True, False])),
            [False, True, False],
        ),
        "pandas of Arrow": (pd.array(pa.array(VALUES), dtype=pd.ArrowDtype(pa.float64())), [False, True, False]),
    }
    return columns[library]


LIBRARIES = {
    "arrow": pa.table,
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "pandas objects": pd.DataFrame,
    "pandas sparse": pd.DataFrame,
    "pandas nullable": pd.DataFrame,
    "pandas of Arrow": pd.DataFrame,
}


def cells(table: Any, name: str) -> list[Any]:
    return table[name].to_pylist() if isinstance(table, pa.Table) else list(table[name])


@pytest.mark.parametrize("library", LIBRARIES)
def test_nan_is_missing_where_the_library_says_so(library):
    column, nulls = floats(library)
    table = LIBRARIES[library]({"id": [0, 1, 2], "x": column})
    right = pa.table({"x": pa.array(VALUES), "found": ["one", "null", "nan"]})
    # In a key NaN equals NaN, and null nothing; nulls_equal makes null equal null.
    expected = [name for name, is_null in zip(["one", "null", "nan"], nulls, strict=True) if not is_null]
    assert cells(jn.join(table, right, on="x"), "found") == expected
    found = ["null" if is_null else name for name, is_null in zip(["one", "null", "nan"], nulls, strict=True)]
    assert cells(jn.join(table, right, on="x", nulls_equal=True), "found") == found
    # A predicate tells null, and in SQL's order NaN is above all numbers.
    one = pa.table({"one": [1]})
    where = jn.join_where(table, one, "l.x IS NULL AND r.one = 1", allow_cross=True)
    assert cells(where, "id") == [row for row in range(3) if nulls[row]]
    where = jn.join_where(table, one, "l.x > r.one")
    assert cells(where, "id") == ([] if nulls[2] else [2])
    # Neither matches where an order decides.
    assert cells(jn.join_asof(table, right, on="x", how="semi"), "id") == [0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_missing_counts_for_nothing(library):
    column, nulls = floats(library)
    table = LIBRARIES[library]({"at": [0, 0, 0], "x": column})
    left = pa.table({"at": [0]})
    agg = {"x": ["count", "max", "sum"]}
    answer = jn.join_range(left, table, on="at", lower=0, upper=0, agg=agg).to_pylist()[0]
    assert answer["x_count"] == nulls.count(False)
    assert (answer["x_max"] == 1.0) == nulls[2]
    assert (answer["x_sum"] == 1.0) == nulls[2]
    # Among ties the greatest wins, which NaN is.
    best = jn.join_asof(left, table, on="at")["x"][0].as_py()
    assert (best == 1.0) == nulls[2]


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_comes_back_as_it_was(library):
    column, _ = floats(library)
    table = LIBRARIES[library]({"id": [0, 1, 2], "x": column})
    answer = jn.join(table, pa.table({"id": [2, 1, 0]}), on="id", how="left")
    before, after = cells(table, "x"), cells(answer, "x")
    assert list(map(repr, after)) == list(map(repr, before))


SIZES = ["small", "large"]


def ordered(library: str, values: list[str]) -> Any:
    """Return a table with a column of categories that are ordered from small to large."""
    codes = pa.array([SIZES.index(value) for value in values], pa.int8())
    columns = {
        "pandas": lambda: pd.Categorical(values, SIZES, ordered=True),
        "pandas of Arrow": lambda: pd.array(
            pa.DictionaryArray.from_arrays(codes, SIZES, ordered=True),
            dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string(), ordered=True)),
        ),
        "polars": lambda: pl.Series(values, dtype=pl.Enum(SIZES)),
        "arrow": lambda: pa.DictionaryArray.from_arrays(codes, SIZES, ordered=True),
    }
    return LIBRARIES[library]({"k": [1] * len(values), "size": columns[library]()})


ORDERED = ("arrow", "polars", "pandas", "pandas of Arrow")


@pytest.mark.parametrize("left", ORDERED)
@pytest.mark.parametrize("right", ORDERED)
def test_ordered_categories_are_equal_by_what_they_say(left, right):
    ours, theirs = ordered(left, ["small", "large", "large"]), ordered(right, ["large"])
    assert cells(jn.join(ours, theirs, on="size", how="semi"), "size") == ["large", "large"]
    assert cells(jn.join_where(ours, theirs, "l.size = r.size", how="anti"), "size") == ["small"]
    assert cells(jn.join_where(ours, theirs, "l.k = r.k AND l.size IN ('small')"), "size") == ["small"]
    text = pa.table({"size": ["large"], "v": [1]})
    assert cells(jn.join(ours, text, on="size"), "v") == [1, 1]


@pytest.mark.parametrize("library", ORDERED)
def test_ties_of_ordered_categories_go_by_what_they_say(library):
    answer = jn.join_asof(pa.table({"k": [1]}), ordered(library, ["small", "large"]), on="k")
    assert answer["size"].to_pylist() == ["small"]


@pytest.mark.parametrize("library", ORDERED)
@pytest.mark.parametrize(
    "comparison", ["l.size < r.size", "r.size >= 'a'", "l.size BETWEEN 'a' AND 'z'", "'a' > (l.size)"]
)
def test_a_predicate_does_not_order_them(library, comparison):
    table = ordered(library, ["small", "large"])
    with pytest.raises(jn.SchemaError, match=r"'size' is of ordered categories .*Cast the column.*\.cat\.codes"):
        jn.join_where(table, table, f"l.k = r.k AND {comparison}")
    with pytest.raises(jn.SchemaError, match="greatest needs an order, but the right column 'size'"):
        jn.join(table, table, on="k", where="l.size = greatest(r.size, 'a')")
    by_text = jn.join_where(table, table, "l.k = r.k AND CAST(l.size AS STRING) < CAST(r.size AS STRING)")
    assert cells(by_text, "size") == ["large"]


@pytest.mark.parametrize("library", ORDERED)
def test_no_argument_orders_them(library):
    left, table = pa.table({"k": [1]}), ordered(library, ["small", "large"])
    with pytest.raises(jn.SchemaError, match="order_by= needs an order, but the right column 'size'"):
        jn.join_asof(left, table, on="k", order_by="size")
    for function in ("min", "max"):
        with pytest.raises(jn.SchemaError, match=rf"agg\['size'\]='{function}' needs an order"):
            jn.join_range(left, table, on="k", lower=0, upper=0, agg={"size": function})


def test_ordered_numbers_are_no_place_on_a_line():
    column = pd.Categorical([3, 1], [3, 1], ordered=True)
    table = pd.DataFrame({"k": column})
    with pytest.raises(jn.SchemaError, match="on= needs an order, but the left column 'k'"):
        jn.join_asof(table, pa.table({"k": [1]}), on="k")
    with pytest.raises(jn.SchemaError, match="interval= needs an order, but the left column 'k'"):
        jn.join_overlap(table, pa.table({"a": [1]}), left_interval=("k", None), right_interval=("a", None))
    nested = pa.table({"k": [1], "x": pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string(), ordered=True)))})
    with pytest.raises(jn.SchemaError, match="order_by= needs an order, but the right column 'x'"):
        jn.join_asof(nested, nested, on="k", order_by="x")
