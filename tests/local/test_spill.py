"""Streams that are kept in memory or on disk, and what is left behind: nothing."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.errors import StateError
from juncture.local.output.payload import read_payload
from juncture.runtime import spill as module
from juncture.runtime.context import join_context
from juncture.runtime.memory import MemoryBudget
from juncture.runtime.sources import TableSource
from juncture.runtime.spill import SpillFolder, spooled
from support.disk import FullDisk

SCHEMA = pa.schema([("ts", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.int8()))])


def batches(sizes):
    number = 0
    for size in sizes:
        ids = range(number, number + size)
        yield pa.record_batch(
            [
                pa.array(ids, pa.int64()),
                [f"name-{i}" for i in ids],
                pa.array([[i % 7] for i in ids], pa.list_(pa.int8())),
            ],
            schema=SCHEMA,
        )
        number += size


def read_all(source, columns):
    parts = [list(source.read(part, columns)) for part in range(len(source.part_rows))]
    assert [sum(batch.num_rows for batch in part) for part in parts] == source.part_rows
    table = pa.Table.from_batches([b for part in parts for b in part], pa.schema([SCHEMA.field(c) for c in columns]))
    return table.to_pydict()


@given(
    sizes=st.lists(st.integers(0, 40), max_size=8),
    memory_bytes=st.sampled_from([0, 500, 10**9]),
    part_rows=st.sampled_from([1, 7, 1000]),
)
def test_a_stream_is_read_again_as_it_came(sizes, memory_bytes, part_rows):
    with SpillFolder() as folder:
        source = spooled(SCHEMA, batches(sizes), folder, MemoryBudget(memory_bytes), part_rows)
        whole = pa.Table.from_batches(batches(sizes), SCHEMA)
        assert source.num_rows == whole.num_rows
        for columns in (["tags", "ts"], ["name"], ["ts", "name", "tags"]):
            assert read_all(source, columns) == whole.select(columns).to_pydict()
        assert folder.spilled_bytes > 0 or memory_bytes > 0 or whole.num_rows == 0


@pytest.mark.parametrize("values", [pa.string(), pa.list_(pa.dictionary(pa.int8(), pa.string()))], ids=str)
@pytest.mark.parametrize("memory_bytes", [0, 10**9])
def test_each_batch_may_have_a_dictionary_of_its_own(values, memory_bytes):
    data_type = pa.dictionary(pa.int8(), values) if pa.types.is_string(values) else values
    schema = pa.schema([("v", data_type)])

    def column(words):
        encoded = pa.array(words).dictionary_encode()
        if pa.types.is_dictionary(data_type):
            return encoded.cast(data_type)
        return pa.ListArray.from_arrays([*range(len(words) + 1)], encoded.cast(values.value_type))

    words = [["a", "b", "a"], ["c", None, "a"], ["b"]]
    with SpillFolder() as folder:
        batches = [pa.record_batch([column(each)], schema=schema) for each in words]
        source = spooled(schema, batches, folder, MemoryBudget(memory_bytes))
        found = [batch for part in range(len(source.part_rows)) for batch in source.read(part, ["v"])]
        assert [batch.to_pydict() for batch in found] == [batch.to_pydict() for batch in batches]
        assert all(batch.schema.equals(schema) for batch in found)
        whole = pa.Table.from_batches(batches)
        with join_context(threads=1) as context:
            payload = read_payload(TableSource(whole), ["v"], context)
        (taken,) = payload.take(["v"], np.array([3, 0, 6], np.int32))
        assert taken.to_pylist() == whole["v"].take([3, 0, 6]).to_pylist()


def test_within_the_limit_nothing_is_written(scratch):
    with SpillFolder() as folder:
        spooled(SCHEMA, batches([10, 10]), folder, MemoryBudget(10**6))
        assert folder.spilled_bytes == 0
        assert list(scratch.iterdir()) == []


def test_beyond_the_limit_the_rest_is_written_and_removed(scratch):
    with SpillFolder() as folder:
        source = spooled(SCHEMA, batches([10, 10]), folder, MemoryBudget(0))
        [made] = scratch.iterdir()
        assert made.name.startswith("juncture-spill-")
        assert folder.spilled_bytes > 0
        assert source.bytes_of(["ts"]) > 0
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_errors_and_interrupts_leave_nothing(scratch, error):
    def broken():
        yield from batches([10])
        raise error

    with pytest.raises(error), SpillFolder() as folder:
        spooled(SCHEMA, broken(), folder, MemoryBudget(0))
    assert list(scratch.iterdir()) == []


def test_a_folder_that_nobody_closes_is_removed_with_its_owner(scratch):
    folder = SpillFolder()
    spooled(SCHEMA, batches([10]), folder, MemoryBudget(0))
    assert list(scratch.iterdir()) != []
    del folder
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("room", [0, 600, 2_000])
def test_no_space_left(scratch, monkeypatch, room):
    monkeypatch.setattr(module.pa, "OSFile", lambda path, mode: pa.PythonFile(FullDisk(path, mode, room), mode="w"))
    with pytest.raises(StateError, match="No space left on device") as raised, SpillFolder() as folder:
        spooled(SCHEMA, batches([10] * 50), folder, MemoryBudget(0))
    assert str(scratch) in str(raised.value)
    assert "TMPDIR" in str(raised.value)
    assert list(scratch.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path):
    with pytest.raises(StateError, match="missing"), SpillFolder(tmp_path / "missing") as folder:
        spooled(SCHEMA, batches([1]), folder, MemoryBudget(0))
