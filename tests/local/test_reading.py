"""Sides read from end to end: the same results in the same order, however many parts fit at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture.runtime.context import join_context
from juncture.runtime.memory import MEMORY_BYTES
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.scan import read_through
from juncture.runtime.sources import Source

ROWS, PART_ROWS, BATCH_ROWS = 1_000, 100, 30


class Parts(Source):
    """Numbers in parts of a hundred, which counts the parts that are being read."""

    def __init__(self) -> None:
        self.schema = pa.schema([("number", pa.int64())])
        self.part_rows = [PART_ROWS] * (ROWS // PART_ROWS)
        self.open = self.most_open = 0
        self._lock = threading.Lock()

    def read(self, part, columns, _coded=(), /):
        with self._lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            for start in range(0, PART_ROWS, BATCH_ROWS):
                first = part * PART_ROWS + start
                numbers = range(first, min(first + BATCH_ROWS, (part + 1) * PART_ROWS))
                yield pa.record_batch([pa.array(numbers)], schema=self.schema).select(columns)
        finally:
            with self._lock:
                self.open -= 1

    def bytes_of(self, columns):
        return 8 * ROWS * len(columns)


@contextmanager
def reading(count, room_bytes, report=None):
    """Yield a context of so many threads, whose rows under way may take so much, if that is limited."""
    with join_context(threads=count, memory_bytes=room_bytes or MEMORY_BYTES, report=report) as context:
        yield context if room_bytes is None else context.streaming(1.0)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("room_bytes", [None, 10**6, 100])
def test_results_come_in_order(count, room_bytes):
    source, done = Parts(), []
    with reading(count, room_bytes, lambda _, *each: done.append(each)) as context:
        made = read_through(source, lambda first, batch: (first, batch["number"].to_pylist()), context, "left")
        results = list(made)
    assert [number for _, numbers in results for number in numbers] == list(range(ROWS))
    assert all(first == numbers[0] for first, numbers in results)
    assert done == [(rows, ROWS) for rows in range(PART_ROWS, ROWS + 1, PART_ROWS)]
    assert source.open == 0


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("room_bytes", [None, 10**6, 100])
def test_results_may_come_in_any_order(count, room_bytes):
    source, done = Parts(), []
    with reading(count, room_bytes, lambda _, *each: done.append(each)) as context:
        made = read_through(
            source, lambda first, batch: (first, batch["number"].to_pylist()), context, "left", in_order=False
        )
        results = list(made)
    assert sorted(number for _, numbers in results for number in numbers) == list(range(ROWS))
    assert all(first == numbers[0] for first, numbers in results)
    assert sorted(done) == done
    assert done[-1] == (ROWS, ROWS)
    assert source.open == 0


def test_parts_that_do_not_fit_are_read_at_once_batch_by_batch_in_any_order():
    source, barrier = Parts(), threading.Barrier(2)

    def make(first, _batch):
        if first in (0, PART_ROWS):
            barrier.wait(timeout=30)

    with reading(3, 8 * PART_ROWS) as context:
        assert len(list(read_through(source, make, context, "left", in_order=False))) == 10 * 4
    assert 2 <= source.most_open <= 3


def test_parts_that_do_not_fit_are_read_one_after_the_other():
    source = Parts()
    part_bytes = 8 * PART_ROWS
    for room_bytes, most_open in ((20 * part_bytes, range(2, 4)), (part_bytes, range(1, 2))):
        source.most_open = 0
        barrier = threading.Barrier(2)

        def make(first, _batch, barrier=barrier, room_bytes=room_bytes):
            # Two parts are open at once if the threads may do that: each waits for the other.
            if room_bytes > part_bytes and first in (0, PART_ROWS):
                barrier.wait(timeout=30)

        with reading(3, room_bytes) as context:
            assert len(list(read_through(source, make, context, "left"))) == 10 * 4
        assert source.most_open in most_open


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("room_bytes", [None, 100])
def test_an_error_ends_the_reading(room_bytes, in_order):
    source = Parts()

    def make(first, _batch):
        if first == 430:
            raise ValueError("row 430")

    with reading(2, room_bytes) as context, pytest.raises(ValueError, match="row 430"):
        list(read_through(source, make, context, "left", in_order=in_order))
    assert source.open <= 2 - in_order


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("room_bytes", [None, 100])
def test_what_is_let_go_is_read_no_further(room_bytes, in_order):
    source = Parts()
    with reading(2, room_bytes) as context:
        made = read_through(source, lambda first, _batch: first, context, "left", in_order=in_order)
        assert next(made) in ([0] if in_order else range(ROWS))
        made.close()
        del made
    assert source.open == 0


def test_buffered_columns_are_decoded_once(tmp_path):
    values = pa.table({"n": range(900), "name": ["a", "b", None] * 300, "on": range(900)})
    path = tmp_path / "some.parquet"
    pq.write_table(values, path, row_group_size=400)
    source = ParquetSource([str(path)]).buffering(["name", "n"])
    assert source.column("n") is None
    read = [batch for part in range(3) for batch in source.read(part, ["on", "name"])]
    path.unlink()
    assert pa.Table.from_batches(read).equals(values.select(["on", "name"]))
    assert source.column("n").to_pylist() == list(range(900))
    # Text is not one array, since one that is as long as a table may be too long for its type.
    assert source.column("name") is source.column("on") is None
    for coded in ([], ["name"]):
        batches = [batch for part in range(3) for batch in source.read(part, ["name", "n"], coded)]
        assert pa.types.is_dictionary(batches[0].schema.field("name").type) == bool(coded)
        assert [name for batch in batches for name in batch["name"].to_pylist()] == values["name"].to_pylist()
