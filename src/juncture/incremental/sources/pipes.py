"""Standard input, pipes and files as a source of changes: rows are read as they arrive, and cut into epochs.

A thread reads each input and splits it into rows: lines of CSV or JSON, or batches of an Arrow stream. An epoch has
rows of one input: a fixed number, those with equal values in a column, or those that have arrived. The offset is the
number of rows of each input that were applied.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from itertools import chain
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeAlias

import pyarrow as pa

from juncture.errors import DataError, SchemaError, SpecError, StateError, did_you_mean
from juncture.files.formats import Format, format_of_start
from juncture.files.text import csv, json
from juncture.files.text.options import TextOptions
from juncture.incremental.changes.change_batch import CHANGE_TYPE, WEIGHT
from juncture.incremental.sources.files import as_base64, from_base64, json_changes, typed
from juncture.incremental.sources.source import Read, Snapshot, Source, SourceEpoch

TABLE = "_table"
"""The column with the table of a change, in inputs of several tables."""

_MARKS = {WEIGHT: pa.int64(), CHANGE_TYPE: pa.string()}
_BLOCK_BYTES = 1 << 16
_WAITING_BLOCKS = 16
_LINE = rb"((?:\r?\n)*+(?:%s)++\n)|.+"
"""A line, after empty lines; else what has arrived of the next one. The placeholder is for what a line consists of."""


def _csv_parts(delimiter: str) -> bytes:
    """Return the parts of a line of CSV: quotes at the start of a value enclose line breaks, others are text."""
    between = re.escape(delimiter).encode() + rb"\n"
    return rb'[^"\n]++|(?<![^%s])"(?:[^"]++|"")*+"|(?<=[^%s])"' % (between, between)


class _Lines:
    """Lines of CSV, whose header has these names, or of JSON, without names."""

    unit = "line"

    def __init__(self, text: TextOptions, names: Sequence[str] = ()) -> None:
        self._text = replace(text, has_line_breaks=True)
        self.names = names
        self._line = re.compile(_LINE % (_csv_parts(text.delimiter) if names else rb"[^\n]"), re.DOTALL)

    def rows(self, stream: BufferedReader) -> Iterator[list[bytes]]:
        rest = b""
        while block := stream.read1(_BLOCK_BYTES):
            rest += block
            if b"\n" in block and (lines := list(filter(None, self._line.findall(rest)))):
                yield lines
                rest = rest[sum(map(len, lines)) :]
        if rest.strip():
            yield [rest + b"\n"]

    def joined(self, parts: Sequence[list[bytes]]) -> list[bytes]:
        return list(chain.from_iterable(parts))

    def lines(self, lines: list[bytes]) -> int:
        return b"".join(lines).count(b"\n")

    def values(self, lines: list[bytes], column: str) -> list[Any]:
        data = b"".join(lines)
        if not self.names:
            return list(json.values(data, column).to_pylist())
        return list(self._read(data, pa.schema({column: pa.string()}))[column].to_pylist())

    def _read(self, data: bytes, schema: pa.Schema) -> pa.Table:
        return csv.read(data, self.names, schema, self._text, has_header=False)

    def taken(self, lines: list[bytes], row_numbers: Sequence[int]) -> list[bytes]:
        return [lines[row_number] for row_number in row_numbers]

    def changes(self, lines: list[bytes], schema: pa.Schema) -> pa.Table:
        data = b"".join(lines)
        if not self.names:
            return json_changes(data, schema)
        marks = [(name, _MARKS[name]) for name in _MARKS if name in self.names and name not in schema.names]
        return from_base64(self._read(data, pa.schema([*as_base64(schema), *marks])), schema)


class _Batches:
    """Batches of an Arrow stream."""

    unit = "row"

    def __init__(self, stream: BufferedReader) -> None:
        self._reader = pa.ipc.open_stream(stream)
        self.names: Sequence[str] = self._reader.schema.names

    def rows(self, _stream: BufferedReader, /) -> Iterator[pa.RecordBatch]:
        yield from self._reader

    def joined(self, parts: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(parts)

    def lines(self, rows: pa.Table) -> int:
        return int(rows.num_rows)

    def values(self, rows: pa.Table, column: str) -> list[Any]:
        return list(rows[column].to_pylist())

    def taken(self, rows: pa.Table, row_numbers: Sequence[int]) -> pa.Table:
        return rows.take(pa.array(row_numbers, pa.int64()))

    def changes(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        marks = (*_MARKS, "op", "before", "after")
        return rows.select([name for name in rows.column_names if name in schema.names or name in marks])


Rows: TypeAlias = Any
"""Lines, or an Arrow batch or table. Both have a length and slices."""

Received: TypeAlias = "tuple[_Input, Rows]"
"""An input, and its new rows. At the end, None or an exception."""


@dataclass(frozen=True)
class ChangeInput:
    """An input of changes: its name in messages, its stream, its format if known, and the tables that it changes."""

    name: str
    opened: Callable[[], BufferedReader]
    format: Format | None
    tables: Mapping[str, pa.Schema]


@dataclass(frozen=True)
class EpochRule:
    """Where an epoch ends: after some rows, or before another value of a column. Neither: when no row waits."""

    rows: int | None = None
    column: str | None = None


class _Input:
    """The rows of an input that have no epoch yet. All methods but `read` run in the main thread."""

    def __init__(self, source: ChangeInput, rule: EpochRule, text: TextOptions, rows: int, *, is_skipped: bool) -> None:
        self._input, self._rule, self._text = source, rule, text
        self._decoder: _Lines | _Batches = _Lines(text)
        self._blocks: deque[Rows] = deque()
        self._skipped_rows = rows if is_skipped else 0
        self._lines = 0
        self._received = self.rows = rows
        self.location = ""
        self._ends: deque[int] = deque()
        self._last_value: Any = None
        self.is_ended = False

    # The thread

    def read(self, queue: Queue[Received]) -> None:
        """Put the rows of the input into a queue, and None or an exception at its end."""
        try:
            with self._input.opened() as stream:
                self._decoder = self._format(stream)
                for block in self._decoder.rows(stream):
                    queue.put((self, block))
            queue.put((self, None))
        except Exception as error:
            queue.put((self, error))

    def _format(self, stream: BufferedReader) -> _Lines | _Batches:
        form = self._input.format or format_of_start(stream.peek())
        if form == "parquet":
            raise SpecError(
                f"{self._input.name} is Parquet, which cannot be read while it is written. Expected CSV, JSON lines or "
                "an Arrow stream.",
                name="JN-FILE-FORMAT",
            )
        if form == "arrow":
            decoder: _Lines | _Batches = _Batches(stream)
        elif form == "json":
            return _Lines(self._text)
        else:
            text = replace(self._text, delimiter="\t") if form == "tsv" else self._text
            header = stream.readline()
            if not header:
                return _Lines(text)
            self._lines = 1
            # Arrow ignores a header without a line end.
            decoder = _Lines(text, csv.header_of(header.rstrip(b"\n") + b"\n", text, Path(self._input.name)))
        self._check_columns(decoder.names, is_text=form != "arrow")
        return decoder

    def _check_columns(self, names: Sequence[str], *, is_text: bool) -> None:
        tables = self._input.tables
        columns = [name for schema in tables.values() for name in schema.names]
        more = {*_MARKS, *([] if is_text else ["op", "before", "after"]), *([TABLE] if len(tables) > 1 else [])}
        unknown = [name for name in names if name not in {*columns, *more, self._rule.column}]
        if unknown:
            raise SchemaError(
                f"Column {unknown[0]!r} of {self._input.name} is not a column of {' or '.join(tables)}. Drop it. "
                f"{did_you_mean(unknown[0], [*columns, *more])}",
                name="JN-SCHEMA-DIFFERENT",
            )
        for name in columns if is_text else ():
            if name not in names:
                raise SchemaError(
                    f"Column {name!r} is missing from the header of {self._input.name}. {did_you_mean(name, names)}",
                    name="JN-COLUMN-MISSING",
                )

    # Epochs

    def receive(self, block: Rows) -> None:
        """Add rows, or the end of the input."""
        if isinstance(block, Exception):
            if isinstance(block, pa.ArrowException | OSError | ValueError):
                raise DataError(
                    f"{self._input.name} cannot be read: {block}. Correct it, or set its format with --format.",
                    name="JN-FILE-DAMAGED",
                ) from block
            raise block
        if block is None:
            self.is_ended = True
            if self._skipped_rows:
                raise StateError(
                    f"{self._input.name} has {self.rows - self._skipped_rows:,} rows, but the state has applied "
                    f"{self.rows:,}. Pass the same input from its start, or --continued with only its new rows.",
                    name="JN-STATE-OFFSET",
                )
            self._end_at(self._received)
            return
        if self._skipped_rows:
            skipped = min(self._skipped_rows, len(block))
            self._skipped_rows -= skipped
            self._count_lines(block[:skipped])
            block = block[skipped:]
        if len(block):
            self._blocks.append(block)
            self._cut(block)

    def _cut(self, block: Rows) -> None:
        first, self._received = self._received, self._received + len(block)
        if self._rule.rows:
            start = first - first % self._rule.rows
            for end in range(start + self._rule.rows, self._received + 1, self._rule.rows):
                self._end_at(end)
        elif self._rule.column:
            for row_number, value in enumerate(self._values(self._decoder.joined([block]), self._rule.column)):
                if value != self._last_value:
                    self._end_at(first + row_number)
                    self._last_value = value

    @property
    def waiting_rows(self) -> int:
        return self._received - self.rows

    def _end_at(self, end: int) -> None:
        if end > (self._ends[-1] if self._ends else self.rows):
            self._ends.append(end)

    def next(self, most_rows: int) -> dict[str, list[pa.RecordBatch]] | None:
        """Return the changes of the next epoch, if it is complete."""
        if not self._rule.rows and not self._rule.column:
            self._ends = deque()
            self._end_at(min(self._received, self.rows + most_rows))
        if not self._ends:
            return None
        count, parts = self._ends[0] - self.rows, []
        while count:
            block = self._blocks.popleft()
            if len(block) > count:
                self._blocks.appendleft(block[count:])
                block = block[:count]
            parts.append(block)
            count -= len(block)
        rows = self._decoder.joined(parts)
        changes = {name: self._changes(name, rows, row_numbers) for name, row_numbers in self._by_table(rows).items()}
        self.rows = self._ends.popleft()
        first = self._lines + 1
        self._count_lines(rows)
        which = f"s {first:,} to {self._lines:,}" if first < self._lines else f" {first:,}"
        self.location = f"{self._decoder.unit}{which} of {self._input.name}"
        return changes

    def _values(self, rows: Rows, column: str) -> list[Any]:
        try:
            return self._decoder.values(rows, column)
        except (pa.ArrowInvalid, KeyError) as error:
            raise DataError(
                f"Column {column!r} of {self._input.name} cannot be read: {error}. Expected numbers or text.",
                name="JN-COLUMN-MISSING",
            ) from error

    def _by_table(self, rows: Rows) -> dict[str, Sequence[int]]:
        tables = self._input.tables
        if len(tables) == 1:
            return dict.fromkeys(tables, range(len(rows)))
        row_numbers: dict[str, list[int]] = {}
        for row_number, name in enumerate(self._values(rows, TABLE)):
            if name not in tables:
                raise DataError(
                    f"Column {TABLE!r} is {name!r} in {self._line(rows, row_number)}. Expected the name of a table. "
                    f"{did_you_mean(str(name), tables)}",
                    name="JN-CHANGE-VALUE",
                )
            row_numbers.setdefault(name, []).append(row_number)
        return dict(row_numbers)

    def _changes(self, table: str, rows: Rows, row_numbers: Sequence[int]) -> list[pa.RecordBatch]:
        schema = self._input.tables[table]
        table_rows = rows if len(row_numbers) == len(rows) else self._decoder.taken(rows, row_numbers)
        try:
            changes = typed(self._decoder.changes(table_rows, schema), schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, KeyError) as error:
            # Find the first wrong row, unless the rows are wrong only together.
            for row_number in row_numbers if len(row_numbers) > 1 else ():
                self._changes(table, rows, [row_number])
            raise DataError(
                f"The change of {table!r} in {self._line(rows, row_numbers[0])} cannot be read: {error}. Expected the "
                f"columns {', '.join(f'{field.name} {field.type}' for field in schema)}. Correct it.",
                name="JN-FILE-DAMAGED",
            ) from error
        for name in (self._rule.column, TABLE):
            if name in changes.column_names and name not in schema.names:
                changes = changes.drop_columns([name])
        return list(changes.to_batches())

    def _count_lines(self, rows: Rows) -> None:
        self._lines += self._decoder.lines(rows)

    def _line(self, rows: Rows, row_number: int) -> str:
        line = self._lines + self._decoder.lines(rows[: row_number + 1])
        return f"{self._decoder.unit} {line:,} of {self._input.name}"


class PipesSource(Source):
    """Inputs that are read as they arrive. ``initial`` are the first rows of tables: each counts and yields its rows.

    An epoch is not read again: after an error, the process has to start again. Rows that a state has are skipped,
    unless ``continued`` inputs begin after them.
    """

    def __init__(
        self,
        inputs: Sequence[ChangeInput],
        tables: Mapping[str, pa.Schema],
        initial: Mapping[str, Any],
        rule: EpochRule,
        text: TextOptions,
        *,
        continued: bool = False,
    ) -> None:
        self._declared, self._initial, self._rule, self._text = inputs, initial, rule, text
        self._continued = continued
        self._tables = tables
        self._queue: Queue[Received] = Queue(_WAITING_BLOCKS)
        self._inputs: list[_Input] = []
        self._turns = 0
        self.location = ""

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """The tables with their columns."""
        return self._tables

    def snapshot(self, read: Read, /) -> Snapshot:
        """Return the initial rows."""
        for name, rows in self._initial.items():
            read(name, rows.num_rows)
        return Snapshot(self._initial, {each.name: 0 for each in self._declared})

    def start(self, offset: Any) -> None:
        """Begin to read the inputs."""
        names = [each.name for each in self._declared]
        if not isinstance(offset, dict) or sorted(offset) != sorted(names):
            raise StateError(
                f"The state has read {', '.join(offset) if isinstance(offset, dict) else offset!r}, but the changes "
                f"are read from {', '.join(names)}. Pass the same inputs in the same order.",
                name="JN-STATE-OFFSET",
            )
        for each in self._declared:
            rows = offset[each.name]
            self._inputs.append(_Input(each, self._rule, self._text, rows, is_skipped=not self._continued))
            Thread(target=self._inputs[-1].read, args=(self._queue,), daemon=True).start()

    @property
    def is_ended(self) -> bool:
        """Whether all inputs have ended, and all their rows have an epoch."""
        return all(each.is_ended and not each.waiting_rows for each in self._inputs)

    def next(self, rows: int, timeout_s: float) -> SourceEpoch | None:
        """Return the changes of one epoch of the inputs, in turn; None if none is complete within the time."""
        self.location = ""
        until = time.monotonic() + timeout_s
        while True:
            self._receive(rows)
            for turn in range(len(self._inputs)):
                row_number = (self._turns + turn) % len(self._inputs)
                each = self._inputs[row_number]
                changes = each.next(rows)
                if changes is not None:
                    self._turns, self.location = row_number + 1, each.location
                    offset = {
                        declared.name: one.rows for declared, one in zip(self._declared, self._inputs, strict=True)
                    }
                    count = sum(batch.num_rows for batches in changes.values() for batch in batches)
                    return SourceEpoch(changes, offset, 1, count)
            left_s = until - time.monotonic()
            if left_s <= 0 or self.is_ended:
                return None
            with suppress(Empty):
                reader, block = self._queue.get(timeout=left_s)
                reader.receive(block)

    def _receive(self, most_rows: int) -> None:
        """Receive the rows that have arrived, about an epoch at most."""
        with suppress(Empty):
            while sum(each.waiting_rows for each in self._inputs) < most_rows:
                reader, block = self._queue.get_nowait()
                reader.receive(block)
