"""Columns of every type of pandas, Polars and pyarrow go through every kind of join, and come back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from support.kinds import Spec
from support.libraries import ARROW, NEVER_MISSING, PANDAS, POLARS, ROWS

HOW = ("inner", "left", "right", "full", "semi", "anti")
KINDS = ("asof", "range", "overlap", "where", "equi")


def spec_of(kind: str, how: Any) -> Spec:
    """Return a join of each kind that matches rows of equal ``id`` and ``key``."""
    on = {"left_on": "id", "right_on": "key"}
    specs: dict[str, Spec] = {
        "asof": jn.Asof(**on, tolerance=0, order_by="number", how=how),
        "range": jn.Range(**on, lower=0, upper=0, how=how),
        "overlap": jn.Overlap(left_interval=("id", "id"), right_interval=("key", "key"), closed="both", how=how),
        "where": jn.Where("l.id = r.key", how=how),
        "equi": jn.Equi(**on, coalesce=False, how=how),
    }
    return specs[kind]


def numbers_of(spec: Spec, ids: Sequence[int], keys: Sequence[int]) -> tuple[list[int | None], list[int | None]]:
    """Return the numbers of the left and the right rows of a join, told by Arrow tables of whole numbers."""
    left = pa.table({"id": pa.array(ids, pa.int64()), "left": pa.array(range(len(ids)), pa.int64())})
    right = pa.table({"key": pa.array(keys, pa.int64()), "number": pa.array(range(len(keys)), pa.int64())})
    answer = jn.plan(left, right, spec).execute()
    none = [None] * answer.num_rows
    return answer["left"].to_pylist(), answer["number"].to_pylist() if "number" in answer.column_names else none


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[int]]:
    """Draw the identities of left and right rows, which match in any number, and which value of a column each has."""
    ids, keys = (draw(st.lists(st.integers(0, 3), max_size=5)) for _ in range(2))
    values = ([draw(st.integers(0, ROWS - 1)) for _ in rows] for rows in (ids, keys))
    return ids, keys, *values


class Pandas:
    columns = PANDAS

    @staticmethod
    def table(key: str, keys: list[int], values: list[int]) -> pd.DataFrame:
        columns = {name: column[np.array(values, int)] for name, column in PANDAS.items()}
        return pd.DataFrame({key: np.array(keys, np.int64), "number": np.arange(len(keys)), **columns})

    @staticmethod
    def check(got: pd.DataFrame, source: pd.DataFrame, rows: list[int | None], suffix: str) -> None:
        here = np.array([number is not None for number in rows], bool)
        numbers = np.array([number for number in rows if number is not None], int)
        expected = {}
        for name, values in source.items():
            # pandas' own take does not know the other order of bytes.
            taken = (values.to_numpy() if isinstance(values.dtype, np.dtype) else values.array)[numbers]
            kind = None if here.all() else {**NEVER_MISSING, "id": "Int64", "key": "Int64", "number": "Int64"}.get(name)
            expected[name] = pd.Series(taken, dtype=kind or values.dtype)
        columns = [name + ("" if name in ("id", "key") else suffix) for name in source.columns]
        found = got[columns].set_axis(source.columns, axis=1)
        pd.testing.assert_frame_equal(found[here].reset_index(drop=True), pd.DataFrame(expected))
        missing = found[~here]
        assert all(column.isna().all() for _, column in missing.items())
        for name in [name for name, dtype in source.dtypes.items() if dtype is np.dtype(object)]:
            # To pandas all marks for a missing value are equal, to us they are not.
            assert list(map(type, found[name][here])) == list(map(type, expected[name]))
            assert all(value is None for value in missing[name])


class Polars:
    columns = POLARS

    @staticmethod
    def table(key: str, keys: list[int], values: list[int]) -> pl.DataFrame:
        columns = {name: column.gather(values) for name, column in POLARS.items()}
        return pl.DataFrame({key: pl.Series(keys, dtype=pl.Int64), "number": np.arange(len(keys)), **columns})

    @staticmethod
    def check(got: pl.DataFrame, source: pl.DataFrame, rows: list[int | None], suffix: str) -> None:
        expected = source.select(pl.all().gather(pl.Series(rows, dtype=pl.Int64)))
        names = [name + ("" if name in ("id", "key") else suffix) for name in source.columns]
        polars.testing.assert_frame_equal(
            got.select(names), expected.rename(dict(zip(source.columns, names, strict=True)))
        )


class Arrow:
    columns = ARROW

    @staticmethod
    def table(key: str, keys: list[int], values: list[int]) -> pa.Table:
        arrays = {key: pa.array(keys, pa.int64()), "number": pa.array(np.arange(len(keys)))}
        for name, column in ARROW.items():
            cells = column.combine_chunks()
            slices = [cells.slice(value, 1) for value in values]
            arrays[name] = pa.chunked_array(slices, column.type)
        fields = [pa.field(name, array.type, metadata={"says": f"{key} {name}"}) for name, array in arrays.items()]
        return pa.table(arrays, schema=pa.schema(fields, metadata={"of": key}))

    @staticmethod
    def check(got: pa.Table, source: pa.Table, rows: list[int | None], suffix: str) -> None:
        for field in source.schema:
            name = field.name + ("" if field.name in ("id", "key") else suffix)
            assert got.schema.field(name).equals(field.with_name(name), check_metadata=True)
            cells = source[field.name].to_pylist()
            expected = [None if number is None else cells[number] for number in rows]
            assert repr(got[name].to_pylist()) == repr(expected), name


LIBRARIES = {"pandas": Pandas, "polars": Polars, "arrow": Arrow}


def check(library: Any, spec: Spec, ids: list[int], keys: list[int], own: list[int], other: list[int]) -> None:
    left, right = library.table("id", ids, own), library.table("key", keys, other)
    answer = jn.plan(left, right, spec).execute()
    lefts, rights = numbers_of(spec, ids, keys)
    library.check(answer, left, lefts, "")
    shown = [*left.columns] if library is not Arrow else left.column_names
    assert list(answer.columns if library is not Arrow else answer.column_names)[: len(shown)] == list(shown)
    if spec.how not in ("semi", "anti"):
        library.check(answer, right, rights, "_right")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_type_through_every_join(library, kind, how):
    check(LIBRARIES[library], spec_of(kind, how), [2, 5, 5, 40], [5, 41, 2, 5], [0, 1, 2, 3], [3, 2, 1, 0])


@pytest.mark.parametrize("library", LIBRARIES)
@given(tables(), st.sampled_from(KINDS), st.sampled_from(HOW))
def test_any_rows_of_every_type(library, rows, kind, how):
    check(LIBRARIES[library], spec_of(kind, how), *rows)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("right", LIBRARIES)
@pytest.mark.parametrize("left", LIBRARIES)
def test_left_columns_stay_whatever_the_right_library(left, right, how):
    ours = LIBRARIES[left].table("id", [2, 5, 5, 40], [0, 1, 2, 3])
    theirs = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[right]({"key": [5, 41, 2]})
    spec = spec_of("equi", how)
    answer = jn.plan(ours, theirs, spec).execute()
    assert type(answer) is type(ours)
    LIBRARIES[left].check(answer, ours, numbers_of(spec, [2, 5, 5, 40], [5, 41, 2])[0], "")


RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["x", "y"], pa.string_view()))
DATES = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), pa.array([1, None], pa.timestamp("us", "UTC")))
LISTS = pa.array([[1], None, [2, 3]], pa.list_view(pa.int8()))


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("left", [pd.DataFrame({"id": [2, 1, 3]}), pl.DataFrame({"id": [2, 1, 3]})], ids=["pd", "pl"])
def test_encoded_columns_of_an_arrow_table_become_plain_ones(left, rows):
    right = pa.table({"id": [1, 2, 3], "runs": RUNS, "dates": DATES}).slice(0, rows)
    answer = jn.join(left, right, on="id", how="left")
    assert [None if pd.isna(value) else value for value in answer["runs"]] == (["y", "x", "y"] if rows else [None] * 3)
    assert [pd.isna(value) for value in answer["dates"]] == ([False, False, True] if rows else [True] * 3)


def test_a_column_of_which_pandas_makes_objects_may_have_no_rows():
    right = pa.table({"id": [1, 2, 3], "lists": LISTS})
    answers = [jn.join(pd.DataFrame({"id": np.array(ids, int)}), right, on="id") for ids in ([], [3])]
    assert [[list(value) for value in answer["lists"]] for answer in answers] == [[], [[2, 3]]]


def test_dictionaries_of_arrow_in_pandas_may_differ_and_hold_nulls():
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["b"])),
    ]
    values = pd.arrays.ArrowExtensionArray(pa.chunked_array(chunks))
    left = pd.DataFrame({"id": [1, 2, 3, 4], "word": values})
    answer = jn.join(left, pd.DataFrame({"id": [3, 1, 2]}), on="id")
    assert answer["word"].dtype == left["word"].dtype
    assert pa.array(answer["word"]).to_pylist() == ["a", None, "b"]
