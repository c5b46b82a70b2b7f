"""Inputs are cut into the same rows and epochs, however their bytes arrive."""

from __future__ import annotations

import io
import json
from itertools import chain, pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from juncture.files.text.options import TextOptions
from juncture.incremental.sources.pipes import ChangeInput, EpochRule, PipesSource

TEXTS = ["a", "bc", "d\n", '"\n\n", e', 'f"']
SCHEMA = pa.schema({"k": pa.int64(), "t": pa.string()})


class Pieces(io.RawIOBase):
    """A stream that returns its bytes in pieces."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, list(sizes)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        size = min(len(buffer), self._sizes.pop() if self._sizes else len(buffer))
        piece, self._data = self._data[:size], self._data[size:]
        buffer[: len(piece)] = piece
        return len(piece)


def in_csv(text: str) -> str:
    """Return a value of CSV. Quotes are doubled within quotes, and text after the start of a value."""
    return '"' + text.replace('"', '""') + '"' if "\n" in text or text.startswith('"') else text


def encoded(form: str, rows: list[tuple[int, str]], blanks: list[int], ends: bool) -> bytes:
    if form == "arrow":
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, SCHEMA) as writer:
            for number in range(0, len(rows), 3):
                writer.write_batch(
                    pa.RecordBatch.from_pylist([{"k": k, "t": t} for k, t in rows[number : number + 3]], SCHEMA)
                )
        return sink.getvalue()
    lines = [json.dumps({"k": k, "t": t}) if form == "json" else f"{k},{in_csv(t)}" for k, t in rows]
    body = "".join(line + "\n" * (1 + blank) for line, blank in zip(lines, blanks, strict=True))
    return (("k,t\n" if form == "csv" else "") + (body if ends else body.rstrip("\n"))).encode()


@given(
    form=st.sampled_from(["csv", "json", "arrow"]),
    rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(TEXTS)), min_size=1, max_size=12),
    blanks=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    ends=st.booleans(),
    sizes=st.lists(st.integers(1, 20), max_size=40),
    rule=st.sampled_from([EpochRule(), EpochRule(rows=1), EpochRule(rows=4), EpochRule(column="k")]),
    skipped=st.integers(0, 12),
)
@settings(max_examples=100, deadline=None)
def test_rows_and_epochs_do_not_depend_on_how_bytes_arrive(form, rows, blanks, ends, sizes, rule, skipped):
    skipped = min(skipped, len(rows))
    data = encoded(form, rows, blanks[: len(rows)], ends)
    changes = ChangeInput("in", lambda: io.BufferedReader(Pieces(data, sizes)), form, {"a": SCHEMA})
    source = PipesSource([changes], {"a": SCHEMA}, {}, rule, TextOptions())
    source.start({"in": skipped})
    epochs, offset = [], {"in": skipped}
    while not source.is_ended:
        epoch = source.next(5, 1)
        if epoch is not None:
            epochs.append([tuple(row.values()) for batch in epoch.changes["a"] for row in batch.to_pylist()])
            offset = epoch.offset
    assert list(chain.from_iterable(epochs)) == rows[skipped:]
    assert offset == {"in": len(rows)}
    if rule.rows:
        bounds = sorted({skipped, len(rows), *(end for end in range(0, 13, rule.rows) if skipped < end < len(rows))})
        assert list(map(len, epochs)) == [end - start for start, end in pairwise(bounds)]
    elif rule.column:
        assert all(len({k for k, _ in epoch}) == 1 for epoch in epochs)
        assert all(before[0][0] != after[0][0] for before, after in pairwise(epochs))
    else:
        assert all(0 < len(epoch) <= 5 for epoch in epochs)
