"""Row groups of the right side that no left row reaches are not read, and no answer is another for it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sources import TableSource
from support.engines import LOCAL_EQUI, execute
from support.kinds import defined_rows
from support.tables import difference


class Watched(ParquetSource):
    """Files that keep note of the row groups that are read."""

    def __init__(self, path: str) -> None:
        super().__init__([path])
        self.read_groups: set[int] = set()

    def read(self, part: int, *arguments: Any) -> Any:
        self.read_groups.add(self._groups[part].number)
        return super().read(part, *arguments)


INTS = pa.int64()
TIMES = pa.timestamp("ms")
# Row groups hold 0-9, 10-19, 20-29, 30-39, 40-49 and 50-59; the left rows are at 35 and 36, and at null.
CASES = [
    (INTS, {"lower": 0, "upper": 2}, {3}),
    (INTS, {"lower": -5, "upper": -5}, {3}),
    (INTS, {"lower": -6, "upper": -6}, {2, 3}),
    (INTS, {"lower": 10, "upper": 20}, {4, 5}),
    (INTS, {"upper": -20}, {0, 1}),
    (INTS, {"lower": 14}, {4, 5}),
    (INTS, {"lower": 100}, set()),
    (INTS, {"lower": -(2**70), "upper": -30}, {0}),
    (INTS, {"lower": "limit", "upper": 0}, {0, 1, 2, 3}),
    (INTS, {"lower": "limit", "upper": "limit"}, {0, 1, 2, 3, 4, 5}),
    (INTS, {"lower": -1, "upper": 1, "how": "left"}, {3}),
    (INTS, {"lower": -1, "upper": 1, "how": "anti"}, {3}),
    (INTS, {"lower": -1, "upper": 1, "how": "full"}, {0, 1, 2, 3, 4, 5}),
    (INTS, {"lower": -1, "upper": 1, "agg": {"v": ["sum", "last"], "*": "count"}}, {3}),
    (pa.float64(), {"lower": -6.5, "upper": 3.5}, {2, 3}),
    (pa.float64(), {"lower": -math.inf, "upper": -20.0}, {0, 1}),
    (pa.date32(), {"lower": timedelta(days=5), "upper": "10d"}, {4}),
    (TIMES, {"lower": "-16ms", "upper": "-15500us"}, {1, 2}),
]


@pytest.mark.parametrize("rows_from", ["table", "file"])
@pytest.mark.parametrize(("data_type", "arguments", "groups"), CASES)
def test_row_groups_that_cannot_match_are_not_read(tmp_path, data_type, arguments, groups, rows_from):
    kind = pa.int32() if data_type == pa.date32() else INTS
    numbers = pa.array(range(60), kind).cast(data_type)
    right = pa.table({"on": numbers, "v": range(60)})
    pq.write_table(right, tmp_path / "right.parquet", row_group_size=10)
    left = pa.table({"on": pa.array([35, None, 36], kind).cast(data_type), "limit": [-3, -8, -1]})
    pq.write_table(left, tmp_path / "left.parquet")
    spec = jn.Range(on="on", **arguments)
    source = Watched(str(tmp_path / "right.parquet"))
    ours = TableSource(left) if rows_from == "table" else ParquetSource([str(tmp_path / "left.parquet")])
    join = spec.resolve(left.schema, right.schema)
    answer = pa.Table.from_batches(execute(join, ours, source, "binary_search"), join.output_schema)
    assert source.read_groups == groups
    assert difference(answer, defined_rows(spec, left, right), ordered=True) is None


def test_nothing_is_read_where_no_left_row_can_match(tmp_path):
    right = pa.table({"on": [1.0, 2.0]})
    pq.write_table(right, tmp_path / "right.parquet")
    for values in ([], [None], [math.nan, None]):
        left = pa.table({"on": pa.array(values, pa.float64())})
        source = Watched(str(tmp_path / "right.parquet"))
        join = jn.Range(on="on", lower=0, how="left").resolve(left.schema, right.schema)
        answer = pa.Table.from_batches(execute(join, TableSource(left), source, "binary_search"), join.output_schema)
        assert answer.num_rows == len(values)
        assert source.read_groups == set()


def test_nan_does_not_hide_the_other_values(tmp_path):
    left = pa.table({"on": [math.nan, 5.0, math.nan]})
    right = pa.table({"on": [math.nan, 1.0, 5.0, 9.0]})
    pq.write_table(right, tmp_path / "right.parquet", row_group_size=1)
    source = Watched(str(tmp_path / "right.parquet"))
    join = jn.Range(on="on", lower=-1, upper=1).resolve(left.schema, right.schema)
    answer = pa.Table.from_batches(execute(join, TableSource(left), source, "binary_search"), join.output_schema)
    assert answer.to_pylist() == [{"on": 5.0, "on_right": 5.0}]
    # Of a row group of NaN alone nothing is known.
    assert source.read_groups == {0, 2}


def test_without_statistics_all_is_read(tmp_path):
    right = pa.table({"on": range(20)})
    pq.write_table(right, tmp_path / "right.parquet", row_group_size=10, write_statistics=False)
    source = Watched(str(tmp_path / "right.parquet"))
    left = pa.table({"on": [15]})
    join = jn.Range(on="on", lower=0, upper=0).resolve(left.schema, right.schema)
    answer = pa.Table.from_batches(execute(join, TableSource(left), source, "binary_search"), join.output_schema)
    assert answer.to_pylist() == [{"on": 15, "on_right": 15}]
    assert source.read_groups == {0, 1}


def watched_equi(join, left, right, algorithm="hash"):
    answer = pa.Table.from_batches(execute(join, left, right, algorithm), join.output_schema)
    return answer, [side.read_groups for side in (left, right) if isinstance(side, Watched)]


TEXTS = [f"k{number:02}" for number in range(60)]
# Row groups hold 0-9, 10-19, 20-29, 30-39, 40-49 and 50-59; the keys of the smaller side are 22, null and 35.
KEYS = [
    (pa.int64(), pa.int64()),
    (pa.int16(), pa.uint64()),
    (pa.date32(), pa.date32()),
    (pa.timestamp("ms"), pa.timestamp("us")),
    (pa.timestamp("ns"), pa.timestamp("s")),
    (pa.string(), pa.string()),
    (pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.binary(), pa.binary()),
]


def keys_of(numbers, data_type):
    plain = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    if pa.types.is_temporal(plain):
        days = pa.array(numbers, pa.int32()).cast(pa.date32())
        return days.cast(plain)
    if pa.types.is_integer(plain):
        return pa.array(numbers, plain)
    return pa.array([None if n is None else TEXTS[n] for n in numbers], pa.string()).cast(plain).cast(data_type)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize(("large_type", "small_type"), KEYS)
def test_row_groups_without_any_key_of_the_smaller_side_are_not_read(tmp_path, large_type, small_type, how):
    large = pa.table({"k": keys_of(range(60), large_type), "v": range(60)})
    pq.write_table(large, tmp_path / "large.parquet", row_group_size=10)
    small = pa.table({"k": keys_of([22, None, 35], small_type), "w": range(3)})
    every, near = set(range(6)), {2, 3}
    # Types that differ cannot stand in for each other.
    spec = jn.Equi(on="k", how=how, coalesce=False)
    cases = [
        (small, large, every if how in ("right", "full") else near),
        (large, small, every if how in ("left", "full", "anti") else near),
    ]
    for left, right, groups in cases:
        files = Watched(str(tmp_path / "large.parquet"))
        sides = [files if side is large else TableSource(side) for side in (left, right)]
        answer, [read] = watched_equi(spec.resolve(left.schema, right.schema), *sides)
        assert read == groups
        assert difference(answer, defined_rows(spec, left, right), ordered=True) is None


@pytest.mark.parametrize(
    ("keys", "arguments", "groups"),
    [
        ([22, 23], {}, {2}),
        ([None, None], {}, set()),
        ([], {}, set()),
        ([70], {}, set()),
        ([22, None], {"nulls_equal": True}, set(range(6))),
        ([22, 70], {}, {2, 3, 4, 5}),
    ],
)
@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
def test_keys_that_rule_out_row_groups(tmp_path, keys, arguments, groups, algorithm):
    large = pa.table({"k": pa.array(range(60), pa.int64())})
    pq.write_table(large, tmp_path / "large.parquet", row_group_size=10)
    small = pa.table({"k": pa.array(keys, pa.int64())})
    spec = jn.Equi(on="k", **arguments)
    files = Watched(str(tmp_path / "large.parquet"))
    answer, [read] = watched_equi(spec.resolve(small.schema, large.schema), TableSource(small), files, algorithm)
    assert read == groups
    assert answer.column("k").to_pylist() == [key for key in keys if key is not None and key < 60]


def test_one_of_several_keys_is_enough(tmp_path):
    large = pa.table({"a": [1] * 20 + [2] * 20, "b": [*range(20), *range(20)], "c": [0.5] * 40})
    pq.write_table(large, tmp_path / "large.parquet", row_group_size=10)
    small = pa.table({"a": [2], "b": [3], "c": [0.5]})
    files = Watched(str(tmp_path / "large.parquet"))
    join = jn.Equi(on=["a", "b", "c"]).resolve(small.schema, large.schema)
    answer, [read] = watched_equi(join, TableSource(small), files)
    assert read == {2}
    assert answer.num_rows == 1


def test_nan_is_a_key_that_no_footer_counts(tmp_path):
    large = pa.table({"k": [1.0, math.nan, 2.0, 3.0]})
    pq.write_table(large, tmp_path / "large.parquet", row_group_size=2)
    small = pa.table({"k": [math.nan]})
    join = jn.Equi(on="k").resolve(small.schema, large.schema)
    answer, _ = watched_equi(join, TableSource(small), Watched(str(tmp_path / "large.parquet")))
    assert answer.num_rows == 1


def test_a_key_that_the_larger_side_cannot_hold_is_no_limit(tmp_path):
    large = pa.table({"k": pa.array(range(20), pa.int64())})
    pq.write_table(large, tmp_path / "large.parquet", row_group_size=10)
    small = pa.table({"k": pa.array([2**64 - 1, 15], pa.uint64())})
    join = jn.Equi(on="k").resolve(small.schema, large.schema)
    answer, _ = watched_equi(join, TableSource(small), Watched(str(tmp_path / "large.parquet")))
    assert answer.column("k").to_pylist() == [15]


@pytest.mark.parametrize("data_type", [pa.decimal32(5, 1), pa.decimal64(12, 1), pa.float16()], ids=str)
def test_types_whose_least_value_arrow_does_not_find(tmp_path, data_type):
    values = pa.array([1, 2, 3, 40, 50, 60], pa.float64()).cast(pa.float32()).cast(data_type)
    path = tmp_path / "right.parquet"
    pq.write_table(pa.table({"at": values, "v": range(6)}), path, row_group_size=3)
    left = pa.table({"ts": values.slice(4, 1)})
    spec = jn.Range(left_on="ts", right_on="at", lower=-12, upper=0)
    assert jn.plan(left, path, spec).execute()["v"].to_pylist() == [3, 4]
