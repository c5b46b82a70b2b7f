from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.errors import DataError, SpecError
from juncture_benchmarks.datasets import write_keyed


@pytest.mark.parametrize(("left_rows", "right_rows"), [(300, 2_000), (2_000, 300)])
def test_the_smaller_side_has_each_key_once(tmp_path, left_rows, right_rows):
    tables = write_keyed(tmp_path / "data", left_rows=left_rows, right_rows=right_rows, keys=600)
    left, right = pq.read_table(tables.left), pq.read_table(tables.right)
    assert left.schema == right.schema == pa.schema({"key": pa.string(), "id": pa.int64(), "val": pa.float64()})
    assert (left.num_rows, right.num_rows) == (left_rows, right_rows)
    small, large = (left, right) if left_rows < right_rows else (right, left)
    keys = small["key"].to_pylist()
    assert len(set(keys)) == 300
    assert keys != sorted(keys)
    assert all(len(key) == 10 and key[0] == "u" and 0 <= int(key[1:]) < 600 for key in keys)
    matched = sum(key in set(keys) for key in large["key"].to_pylist())
    assert 800 < matched < 1_200
    assert left["id"].to_pylist() == list(range(left_rows))


def test_one_key_may_be_hot(tmp_path):
    tables = write_keyed(tmp_path / "data", left_rows=300, right_rows=2_000, keys=600, hot_share=0.5)
    left, right = pq.read_table(tables.left), pq.read_table(tables.right)
    hot = right["key"].to_pylist().count("u000000000")
    assert 900 < hot < 1_100
    assert left["key"].to_pylist().count("u000000000") == 1


def test_keys_may_be_integers(tmp_path):
    sizes = {"left_rows": 300, "right_rows": 2_000, "keys": 600}
    text = write_keyed(tmp_path / "text", **sizes)
    integer = write_keyed(tmp_path / "integer", key_kind="integer", **sizes)
    for one, other in ((text.left, integer.left), (text.right, integer.right)):
        keys = pq.read_table(other)["key"]
        assert keys.type == pa.int64()
        assert [f"u{key:09}" for key in keys.to_pylist()] == pq.read_table(one)["key"].to_pylist()


def test_the_same_arguments_find_the_same_tables(tmp_path):
    sizes = {"left_rows": 100, "right_rows": 200, "keys": 100}
    one = write_keyed(tmp_path / "one", **sizes)
    other = write_keyed(tmp_path / "other", **sizes)
    assert pq.read_table(one.right).equals(pq.read_table(other.right))
    assert write_keyed(tmp_path / "one", **sizes) == one
    with pytest.raises(DataError, match="keys"):
        write_keyed(tmp_path / "one", **(sizes | {"keys": 101}))


@pytest.mark.parametrize(
    "wrong", [{"left_rows": -1}, {"keys": 50}, {"keys": 0}, {"seed": -1}, {"hot_share": 1.5}, {"key_kind": "uuid"}]
)
def test_arguments_out_of_range(tmp_path, wrong):
    with pytest.raises(SpecError):
        write_keyed(tmp_path / "data", **({"left_rows": 100, "right_rows": 200, "keys": 100} | wrong))
