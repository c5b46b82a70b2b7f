"""What is known of inputs in-process before a join runs, and where from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.local.statistics import SAMPLE_ROWS, sample_input
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sources import TableSource
from support.arrays import build

ROWS = 100_000


def table(rows: int = ROWS) -> pa.Table:
    numbers = np.arange(rows)
    keys = pa.array(np.where(numbers % 4, numbers % 1_000, 0), mask=numbers % 10 == 0)
    return pa.table({"ts": numbers, "k": keys, "name": pa.array(["x" * 40, "y" * 40] * (rows // 2))})


def seen(spec, source, given=None):
    join = spec.resolve(source.schema, source.schema)
    return sample_input(join, "left", source, given or jn.SideStats()).stats


def test_a_table_is_looked_at_here_and_there():
    side = seen(jn.Asof(on="ts", by="k"), TableSource(table()))
    assert (side.rows, side.null_rows) == (ROWS, ROWS // 10)
    assert side.row_bytes == pytest.approx(8 + 8 + 44, abs=2)
    assert side.distinct_keys == 701
    assert side.hottest_key_share == pytest.approx(0.2, abs=0.02)
    assert side.on_range[0] < 100
    assert side.on_range[1] > ROWS - 100
    assert side.is_sorted
    assert side.provenance["is_sorted"] == f"all {ROWS:,} rows"
    assert side.provenance["rows"] == side.provenance["null_rows"] == "Arrow table"
    assert side.provenance["distinct_keys"] == f"sample of {SAMPLE_ROWS:,} rows"
    assert side.provenance["hottest_key_share"] == f"sample of {SAMPLE_ROWS:,} rows, ± 0.6%"


@pytest.mark.parametrize(("values", "is_sorted"), [([1, 2, 2, None, 3], True), ([1, 3, 2], False), ([None], True)])
def test_all_rows_of_a_small_table_tell_its_order(values, is_sorted):
    side = seen(jn.Asof(on="ts"), TableSource(pa.table({"ts": pa.array(values, pa.int64())})))
    assert side.is_sorted is is_sorted
    assert side.provenance["is_sorted"] == f"all {len(values)} rows"


def test_some_rows_tell_that_a_table_is_not_sorted():
    shuffled = table().take(np.random.default_rng(0).permutation(ROWS))
    side = seen(jn.Asof(on="ts"), TableSource(shuffled))
    assert side.is_sorted is False


@pytest.mark.parametrize("declared", [True, False])
def test_footers_tell_without_a_row(tmp_path, declared):
    order = [pq.SortingColumn(0)] if declared else None
    for number in range(2):
        part = table().slice(number * ROWS // 2, ROWS // 2)
        pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=20_000, sorting_columns=order)
    source = ParquetSource([str(tmp_path)])
    side = seen(jn.Asof(on="ts", by="k"), source)
    assert (side.rows, side.null_rows, side.on_range) == (ROWS, ROWS // 10, (0, ROWS - 1))
    assert side.is_sorted is (True if declared else None)
    assert {side.provenance[name] for name in ("rows", "null_rows", "on_range")} == {"Parquet footers"}
    if declared:
        assert side.provenance["is_sorted"] == "Parquet footers, not checked"
    assert side.provenance["distinct_keys"].endswith(" rows at the start of 6 row groups, error not known")
    # In files the strings are numbers of two; in memory they are strings.
    assert source.bytes_of(["name"]) < ROWS
    assert side.row_bytes >= 8 + 8 + 40


def test_row_groups_in_another_order_are_not_sorted(tmp_path):
    for number in range(2):
        part = table(2_000).slice((1 - number) * 1_000, 1_000)
        pq.write_table(part, tmp_path / f"{number}.parquet", sorting_columns=[pq.SortingColumn(0)])
    assert seen(jn.Asof(on="ts"), ParquetSource([str(tmp_path)])).is_sorted is False


def test_a_join_by_inequalities_samples_values_whose_order_is_declared(tmp_path):
    path = str(tmp_path / "sorted.parquet")
    pq.write_table(table(1_000), path, row_group_size=300, sorting_columns=[pq.SortingColumn(0)])
    plan = jn.plan(path, path, jn.Range(on="ts", by="k", lower=-2, upper=2))
    assert plan.execute().num_rows > 0


def test_footers_tell_that_row_groups_descend(tmp_path):
    path = tmp_path / "unsorted.parquet"
    pq.write_table(pa.table({"ts": [None, 1, 4, 2, None, None, 3, 5]}), path, row_group_size=2)
    side = seen(jn.Asof(on="ts"), ParquetSource([str(path)]))
    assert (side.is_sorted, side.provenance["is_sorted"]) == (False, "Parquet footers")


def test_what_is_given_is_not_gathered():
    class Unread(TableSource):
        def read(self, *_):
            raise AssertionError

    given = jn.SideStats(distinct_keys=5, hottest_key_share=0.5, on_range=(0, 9), is_sorted=False)
    side = seen(jn.Range(on="ts", lower=0, upper=1, by="k"), Unread(table(100)), given)
    assert (side.distinct_keys, side.hottest_key_share, side.on_range) == (5, 0.5, (0, 9))
    assert side.provenance["distinct_keys"] == "given"


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        pytest.param(pa.array([[1], [2], [1]]), None, id="list"),
        pytest.param(pa.array([{"a": 1}, None, {"a": 1}]), None, id="struct"),
        pytest.param(pa.array(["x", "y", "x"]).dictionary_encode(), 2, id="dictionary"),
        pytest.param(pa.array([None, None, None]), 0, id="null"),
        pytest.param(pa.array(["x", "y", "x"], pa.string_view()), 2, id="view"),
        pytest.param(pa.array([True, False, True]), 2, id="bool"),
        pytest.param(pa.array([1.5, float("nan"), float("nan")]), 2, id="float"),
    ],
)
def test_keys_of_any_type_that_arrow_groups_by(column, keys):
    assert seen(jn.Equi(on="k"), TableSource(pa.table({"k": column}))).distinct_keys == keys


def test_an_order_that_arrow_does_not_compare_is_left_alone():
    hundreds = build([100, 200, 300], pa.decimal128(5, -2))
    side = seen(jn.Asof(on="ts"), TableSource(pa.table({"ts": hundreds})))
    assert (side.rows, side.is_sorted) == (3, None)


def test_half_floats_are_looked_at_as_floats():
    halves = pa.array(np.array([1, 2, 3], np.float16))
    side = seen(jn.Asof(on="ts"), TableSource(pa.table({"ts": halves})))
    assert (side.rows, side.on_range, side.is_sorted) == (3, (1.0, 3.0), True)


def test_intervals_go_from_the_first_start_to_the_last_end():
    source = TableSource(pa.table({"start": [3, 1, None], "end": [4, 9, 20]}))
    side = seen(jn.Overlap(left_interval=("start", "end"), right_interval=("start", "end")), source)
    assert side.on_range == (1, 20)
    assert side.null_rows == 1


def test_nothing_to_look_at():
    side = seen(jn.Equi(on="k"), TableSource(pa.table({"k": pa.array([], pa.int64())})))
    assert (side.rows, side.distinct_keys, side.null_rows) == (0, None, 0)
