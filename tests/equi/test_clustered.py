"""Right rows that are held side by side by key: of every type of fixed width, from many parts and batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.sources import TableSource
from juncture.testing import equi_join
from support.engines import execute
from support.tables import difference

ROWS = 600


def tables(keys: int) -> tuple[pa.Table, pa.Table]:
    """Return a table of keys, some of them twice, and a longer one with values of many types, some of them null."""
    chance = np.random.default_rng(keys)
    left = pa.table({"k": chance.permutation(np.arange(keys * 3 // 2) % keys), "l": np.arange(keys * 3 // 2)})
    numbers = pa.array(np.arange(ROWS, dtype=np.int32) % 128, mask=chance.random(ROWS) < 0.1)
    types = [pa.int8(), pa.int16(), pa.int32(), pa.float64(), pa.decimal128(20, 2), pa.float32(), pa.date32()]
    columns = {str(each): numbers.cast(each) for each in types}
    key = pa.array(chance.integers(-9, keys + 9, ROWS), mask=chance.random(ROWS) < 0.1)
    return left, pa.table({"k": key, "r": np.arange(ROWS), **columns})


@pytest.mark.parametrize("keys", [1, 30, 250])
@pytest.mark.parametrize(
    ("how", "where"), [("inner", None), ("left", None), ("left", "r.r > l.l"), ("semi", "r.r > 99")]
)
def test_every_type_of_fixed_width(tmp_path, keys, how, where):
    left, right = tables(keys)
    pq.write_table(right, tmp_path / "right.parquet", row_group_size=140)
    # Several batches for each row group, each of a 64th of little memory.
    source = ParquetSource([str(tmp_path / "right.parquet")]).within(MemoryBudget(32 << 10))
    join = jn.Equi(on="k", how=how, where=where).resolve(left.schema, right.schema)
    batches = execute(join, TableSource(left), source, "hash")
    answer = pa.Table.from_batches(batches, join.user_schema(left.schema, right.schema))
    assert difference(answer, equi_join(join, left, right), ordered=True) is None
