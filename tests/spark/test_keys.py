"""The numbers that place rows: equal for equal values of any two types, and in the order of ``on``."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.columnar.types import is_null_type
from juncture.spark.tasks.placement import Coding, dense_keys
from juncture.spec.asof import Asof
from juncture.testing.rows import keys as keys_of
from juncture.testing.rows import on_values
from support.arrays import build
from support.column_types import LOCAL_BY, LOCAL_ON
from support.value_pools import pool


def reaches_tasks(data_type: pa.DataType) -> bool:
    """Tell types that tasks may see: neither Spark nor what reads files for them hands out others."""
    if pat.is_run_end_encoded(data_type) and (
        pat.is_string_view(data_type.value_type) or pat.is_binary_view(data_type.value_type)
    ):
        return False
    return not is_null_type(data_type)


SENT_BY = [types for types in LOCAL_BY if all(map(reaches_tasks, types))]


def coding_of(ours: pa.DataType, theirs: pa.DataType, by: str | None = None) -> Coding:
    spec = Asof(on="on" if by is None else "t", by=by)
    more = [] if by is None else [("t", pa.int64())]
    return Coding.of(spec.resolve(pa.schema([("on", ours), *more]), pa.schema([("on", theirs), *more])))


@pytest.mark.parametrize("types", SENT_BY, ids=str)
def test_equal_keys_have_equal_hashes(types):
    spec = Asof(on="t", by="on")
    tables = []
    for data_type in types:
        values = build([*pool(data_type), None], data_type)
        tables.append(pa.table({"on": values, "t": pa.array(range(len(values)))}))
    join = spec.resolve(tables[0].schema, tables[1].schema)
    keys = [keys_of(table, ("on",)) for table in tables]
    hashes = [Coding.of(join).hashes(table["on"].chunks, len(table)) for table in tables]
    for key, hashed, valid in zip(keys[0], *hashes[0], strict=True):
        for other, other_hashed, other_valid in zip(keys[1], *hashes[1], strict=True):
            if key is not None and key == other:
                assert hashed == other_hashed
                assert valid
                assert other_valid
    assert not hashes[0][1][-1]


@pytest.mark.parametrize("types", LOCAL_ON, ids=str)
@given(data=st.data())
def test_codes_keep_the_order(types, data):
    coding = coding_of(*types)
    values, codes = [], []
    for data_type in types:
        column = build(data.draw(st.lists(st.sampled_from([*pool(data_type), None]), max_size=12)), data_type)
        ours, valid = coding.order.encode(column)
        steps = on_values(pa.chunked_array([column]))
        assert [step is not None for step in steps] == (np.ones(len(ours), bool) if valid is None else valid).tolist()
        values += [step for step in steps if step is not None]
        codes += [code for code, step in zip(ours.tolist(), steps, strict=True) if step is not None]
    pairs = sorted(zip(values, codes, strict=True))
    for (one, code), (other, other_code) in pairwise(pairs):
        assert code <= other_code
        assert code == other_code or one != other


def test_codes_tell_neighbours_apart_where_they_can():
    column = pa.array([Decimal("1.01"), Decimal("1.02")], pa.decimal128(18, 2))
    codes, _ = coding_of(column.type, column.type).order.encode(column)
    assert codes[0] < codes[1]


def test_hashes_of_few_bits():
    coding = Coding(((pa.int64(), pa.int64()),), (pa.int64(), pa.int64()), hash_bits=2)
    hashes, _ = coding.hashes([pa.array(range(1_000))], 1_000)
    assert len(np.unique(hashes)) == 4


@pytest.mark.parametrize("types", SENT_BY, ids=str)
def test_dense_keys(types):
    values = [value for value in pool(types[0]) * 2 if value is not None]
    table = pa.table({"k": build(values, types[0])})
    keys = keys_of(table, ("k",))
    dense = dense_keys(table, ("k",)).tolist()
    assert all((a == b) == (x == y) for a, x in zip(keys, dense, strict=True) for b, y in zip(keys, dense, strict=True))
