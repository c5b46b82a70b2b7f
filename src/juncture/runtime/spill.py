"""Spilling: a temporary folder per join, and streams that are spooled so that they can be read again."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import finalize

import pyarrow as pa

from juncture.columnar.arrays import memory_pool, sliced
from juncture.errors import StateError
from juncture.runtime.memory import MemoryBudget, release_unused
from juncture.runtime.sources import Source
from juncture.runtime.threads import SIZES, grouped
from juncture.spec.size import format_size

_log = logging.getLogger(__name__)

MEMORY_BYTES = 256 << 20
"""The default maximum size of a stream in memory."""

_ALIGNED_BYTES = 64
_RELEASED_SHARE = 0.125
"""The share of memory after which freed memory is returned to the system, in bytes written or read."""

_RELEASED_BYTES_LEAST = 4 << 20  # returning memory takes milliseconds, so smaller amounts are not worth it
_ROW_BYTES = 128  # of the rows of a part, at most


class SpillFolder:
    """A temporary folder for one join, by default in ``TMPDIR``, created at the first write and always removed."""

    def __init__(self, parent: str | os.PathLike[str] | None = None, memory: MemoryBudget | None = None) -> None:
        self._parent = parent
        total_bytes = MEMORY_BYTES if memory is None else memory.total_bytes
        self._released_bytes = max(_RELEASED_BYTES_LEAST, int(total_bytes * _RELEASED_SHARE))
        self._path: Path | None = None
        self._remove: finalize[..., SpillFolder] | None = None
        self._files = 0
        self.spilled_bytes = 0
        self._passed_bytes = 0

    def __enter__(self) -> SpillFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder and its files."""
        if self._remove is not None:
            self._remove()
            _log.info("Spilled %s to %s, which was removed", format_size(self.spilled_bytes), self._path)
        self._path, self._remove = None, None

    def file(self, schema: pa.Schema) -> SpillFile:
        """Create a file of record batches."""
        try:
            if self._path is None:
                self._path = Path(tempfile.mkdtemp(prefix="juncture-spill-", dir=self._parent))
                self._remove = finalize(self, shutil.rmtree, self._path, ignore_errors=True)
                _log.info("Spilling rows that exceed the memory to %s", self._path)
            self._files += 1
            return SpillFile(self, self._path / f"{self._files}.arrow", schema)
        except OSError as error:
            raise self.failure(error) from error

    def pass_by(self, size_bytes: int) -> None:
        """Count written or read bytes, and regularly return freed memory to the system."""
        self._passed_bytes += size_bytes
        if self._passed_bytes > self._released_bytes:
            self._passed_bytes = 0
            release_unused()

    def failure(self, error: OSError) -> StateError:
        """Return the error for a failed write."""
        folder = str(self._path or self._parent or tempfile.gettempdir())
        return StateError(
            f"The spill folder {folder!r} cannot be written, after {self.spilled_bytes:,} bytes: {error}. Free space "
            "on that disk, set TMPDIR to a folder on a larger disk, or raise memory=.",
            name="JN-SPILL-FAILED",
        )


class SpillFile:
    """Record batches on disk: written once, then read in any order by any thread.

    Each batch is an Arrow IPC stream of its own, because a stream has one dictionary per column and batches may have
    different ones. The caller's thread writes and reads: waking Arrow's threads takes longer than a small batch, and
    they use memory of their own.
    """

    def __init__(self, folder: SpillFolder, path: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._path = str(path)
        self._schema = schema
        self._sink = pa.OSFile(self._path, "wb")
        self._options = pa.ipc.IpcWriteOptions(
            compression="lz4" if pa.Codec.is_available("lz4") else None, use_threads=False
        )
        self._extents: list[tuple[int, int]] = []
        self._end = 0

    @property
    def batches(self) -> int:
        """The number of written batches."""
        return len(self._extents)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self.append(self.encoded(batch))

    def encoded(self, batch: pa.RecordBatch) -> pa.Buffer:
        """Return a batch as it is written. Any thread may do this while another one appends."""
        content = pa.BufferOutputStream(memory_pool())
        with pa.ipc.new_stream(content, self._schema, options=self._options) as writer:
            writer.write_batch(batch)
        return content.getvalue()

    def append(self, written: pa.Buffer) -> int:
        """Append an encoded batch, and return its number."""
        padding = -written.size % _ALIGNED_BYTES
        try:
            self._sink.write(written)
            self._sink.write(bytes(padding))
        except OSError as error:
            self._abandon()
            raise self._folder.failure(error) from error
        self._extents.append((self._end, written.size))
        self._end += written.size + padding
        self._folder.spilled_bytes += written.size + padding
        self._folder.pass_by(written.size)
        return len(self._extents) - 1

    def finish(self) -> None:
        """Close the file for writing, so that it can be read."""
        try:
            self._sink.close()
        except OSError as error:
            self._abandon()
            raise self._folder.failure(error) from error

    def read(self, batches: Iterable[int], columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield batches with these columns in this order; with all columns for None."""
        if not self._extents:
            return
        numbers = None if columns is None else [self._schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=numbers, use_threads=False)
        # Not memory-mapped, because pages that were read would count as memory of this process.
        with pa.OSFile(self._path, "rb") as content:
            for number in batches:
                start, size = self._extents[number]
                content.seek(start)
                with pa.ipc.open_stream(content.read(size), options=options, memory_pool=memory_pool()) as reader:
                    # Without a variable, so that a batch is freed before the next one is read.
                    yield reader.read_next_batch() if columns is None else reader.read_next_batch().select(columns)
                self._folder.pass_by(size)

    def remove(self) -> None:
        """Delete the file."""
        Path(self._path).unlink(missing_ok=True)

    def _abandon(self) -> None:
        """Close the file after a failed write. Closing may fail on the same full disk."""
        with suppress(OSError, pa.ArrowException):
            self._sink.close()


class SpilledSource(Source):
    """Rows that are written once, part by part, and then read: in memory up to a size, and from there on disk.

    Batches below `batch_bytes` are combined to one part. Without a folder, all rows are in memory.
    """

    def __init__(
        self, schema: pa.Schema, spill: SpillFolder | None, batch_bytes: int = 0, *, memory_bytes: int = 0
    ) -> None:
        self.schema = schema
        self.part_rows: list[int] = []
        self.size_bytes = 0
        self._spill, self._memory_bytes = spill, memory_bytes
        self._parts: list[list[pa.RecordBatch] | range] = []
        self._file: SpillFile | None = None
        self._batch_bytes = batch_bytes
        self._buffer: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._buffer.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= self._batch_bytes:
            self._flush()

    def put(self, part: list[pa.RecordBatch]) -> None:
        """Append a part."""
        self.part_rows.append(sum(batch.num_rows for batch in part))
        self.size_bytes += sum(batch.nbytes for batch in part)
        if self._spill is None or (self._file is None and self.size_bytes <= self._memory_bytes):
            self._parts.append(part)
            return
        self._file = self._file or self._spill.file(self.schema)
        first = self._file.batches
        for batch in part:
            self._file.write(batch)
        self._parts.append(range(first, self._file.batches))

    def finish(self) -> None:
        """Close the source for writing, so that it can be read."""
        self._flush()
        if self._file is not None:
            self._file.finish()

    def remove(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.remove()

    def read(self, part: int, columns: Sequence[str], _coded: Collection[str] = (), /) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        batches = self._parts[part]
        if isinstance(batches, list):
            return (batch.select(columns) for batch in batches)
        assert self._file is not None
        return self._file.read(batches, columns)

    def bytes_of(self, columns: Sequence[str]) -> int:
        """Return the size of the columns, in proportion."""
        return self.size_bytes * len(columns) // max(len(self.schema), 1)

    def _flush(self) -> None:
        if self._buffer:
            table = pa.Table.from_batches(self._buffer).combine_chunks(memory_pool())
            for batch in table.to_batches():
                self.put([batch])
        self._buffer, self._held_bytes = [], 0


def spooled(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    spill: SpillFolder | None = None,
    memory: MemoryBudget | None = None,
    part_rows: int = SIZES.slice_rows,
) -> SpilledSource:
    """Return a stream of record batches in parts that are worth a task, in memory up to a limit and then on disk."""
    source = SpilledSource(schema, spill, memory_bytes=MEMORY_BYTES if memory is None else memory.total_bytes)
    pieces = (piece for batch in batches for piece in sliced(batch, part_rows))
    for part in grouped(pieces, _ROW_BYTES * part_rows, lambda piece: max(_ROW_BYTES * piece.num_rows, piece.nbytes)):
        source.put(part)
    source.finish()
    return source


def in_small_parts(source: Source, columns: Sequence[str], rows: int, spill: SpillFolder) -> Source:
    """Return the source with parts of at most `rows` rows: itself, or a copy on disk."""
    if max(source.part_rows, default=0) <= rows:
        return source
    # Batches without columns lose their number of rows.
    names = list(columns) or source.schema.names[:1]
    copy = SpilledSource(pa.schema([source.schema.field(name) for name in names]), spill, 0)
    for _, batch in source.scan(names):
        for piece in sliced(batch, rows):
            copy.write(piece)
    copy.finish()
    return copy
