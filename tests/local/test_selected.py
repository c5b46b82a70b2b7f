"""Some rows of a source: those and no others, in order, and parts without any of them left alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from juncture.runtime.sources import Source
from juncture.runtime.take import SelectedSource


class Parts(Source):
    """Rows in parts, of several batches each, which notes what is read."""

    def __init__(self, parts: list[list[int]]) -> None:
        self.schema = pa.schema([("row", pa.int64()), ("text", pa.string_view())])
        self.part_rows = [sum(part) for part in parts]
        self.seen: list[int] = []
        self._parts = parts

    def read(self, part, columns, coded=()):
        assert not coded
        self.seen.append(part)
        place = int(self.bounds[part])
        for rows in self._parts[part]:
            numbers = range(place, place + rows)
            texts = pa.array([f"text of row {i}" for i in numbers], pa.string_view())
            batch = pa.record_batch([pa.array(numbers, pa.int64()), texts], schema=self.schema)
            yield batch.select(columns)
            place += rows

    def bytes_of(self, columns):
        return 10 * len(columns) * self.num_rows


@given(parts=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), max_size=5), data=st.data())
def test_rows(parts, data):
    source = Parts(parts)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, max(source.num_rows - 1, 0)))) if source.num_rows else []))
    selected = SelectedSource(source, rows.astype(np.int32))
    assert selected.num_rows == len(rows)
    found = [list(selected.read(part, ["text", "row"])) for part in range(len(selected.part_rows))]
    assert [sum(batch.num_rows for batch in part) for part in found] == list(selected.part_rows)
    assert [row for part in found for batch in part for row in batch["row"].to_pylist()] == rows.tolist()
    assert [t for part in found for b in part for t in b["text"].to_pylist()] == [f"text of row {row}" for row in rows]
    assert len(source.seen) == len({int(np.searchsorted(source.bounds, row, "right")) for row in rows})
    assert selected.bytes_of(["row"]) == 10 * len(rows)
