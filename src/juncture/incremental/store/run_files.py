"""Runs of rows in RocksDB: written as sorted files, ingested as a whole, and read block by block."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import rocksdict

from juncture.errors import StateError
from juncture.incremental.store.blocks import BlockRows, Index
from juncture.incremental.store.run_writer import BLOCK, HAS_STATE, INDEX, STATE, RunWriter, block_key, run_key
from juncture.kernels.array_types import Mask

_log = logging.getLogger(__name__)

MANIFEST = b"manifest"
"""Key of the manifest: the committed runs and epochs."""

_NEW_RUN = "run-"
_RUNS_MOST = (1 << 63) - 1
_CORRUPTION = "Corruption"
"""Prefix of RocksDB's errors about damage."""


class RunFiles:
    """A database with runs of rows. Subclasses define which runs are committed, and what else it contains."""

    kind: ClassVar[str] = "state"
    """Name of the database in messages."""

    def __init__(self, folder: Path, database: Any) -> None:
        self.folder = folder
        self._database = database
        self._manifest: dict[str, Any] = {}
        self._next = 1
        self._sync = rocksdict.WriteOptions()
        self._sync.sync = True

    def blocks(self, run: int, blocks: Sequence[int]) -> list[bytes]:
        """Return some blocks of a run."""
        return self._get_many([block_key(BLOCK, run, block) for block in blocks])

    def states(self, run: int, blocks: Sequence[int]) -> list[bytes]:
        """Return the states of some blocks that have one."""
        return self._get_many([block_key(STATE, run, block) for block in blocks])

    def writer(self, *, is_sorted: bool) -> RunWriter:
        """Begin to write a run for `take_in`."""
        number = self._next
        self._next += 1
        with self._writing():
            return RunWriter(self.folder / f"{_NEW_RUN}{number}.sst", number, is_sorted=is_sorted)

    def take_in(self, writer: RunWriter) -> tuple[Index, Mask] | None:
        """Ingest a run; return its index, and which of its blocks have a state; None without rows."""
        with self._writing():
            written = writer.finish()
            if written is not None:
                moved = rocksdict.IngestExternalFileOptions()
                moved.set_move_files(True)
                self._database.ingest_external_file([str(writer.path)], moved)
            return written

    def write(self, pieces: Iterable[BlockRows], *, is_sorted: bool) -> tuple[Index, Mask] | None:
        """Write rows as a run, and ingest it."""
        writer = self.writer(is_sorted=is_sorted)
        for rows in pieces:
            with self._writing():
                writer.add(rows)
        return self.take_in(writer)

    def _commit(self, batch: Any, manifest: dict[str, Any]) -> None:
        """Write a batch and the manifest atomically."""
        batch.put(MANIFEST, json.dumps(manifest).encode())
        try:
            with self._writing():
                self._database.write(batch, self._sync)
            self._manifest = manifest
        except BaseException:
            # The write may have succeeded before the interrupt.
            with self._damage():
                content = self._database.get(MANIFEST)
                self._manifest |= {} if content is None else json.loads(content)
            raise

    def close(self) -> None:
        """Close the database, so that another process can open it.

        All committed data is on disk before, so an error of a background task is only logged. Reading damaged data
        raises it again.
        """
        try:
            self._database.close()
        except Exception as error:
            _log.warning("%s", self._damaged(error))

    def _remove_left_over(self) -> None:
        """Remove files of runs that were never ingested."""
        for left_over in self.folder.glob(f"{_NEW_RUN}*.sst"):
            left_over.unlink()

    def _get_many(self, keys: list[bytes]) -> list[bytes]:
        if not keys:
            return []
        with self._damage():
            found: list[bytes] = self._database.get(keys)
            if any(content is None for content in found):
                raise ValueError("a block is missing")
            return found

    def _content(self, key: bytes) -> bytes:
        content: bytes | None = self._database.get(key)
        if content is None:
            raise ValueError(f"the entry {key!r} is missing")
        return content

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Raise a `StateError` for any error in reading."""
        try:
            yield
        except StateError:
            raise
        except Exception as error:
            # The Python binding raises plain exceptions.
            raise StateError(self._damaged(error), name="JN-STATE-DAMAGED") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # A background task has found damage, which RocksDB then reports for each write.
            if str(error).startswith(_CORRUPTION):
                raise StateError(self._damaged(error), name="JN-STATE-DAMAGED") from error
            raise StateError(
                f"The {self.kind} cannot be written to {self.folder}: {error}. Check the permissions and the free "
                "disk space.",
                name="JN-STATE-WRITE",
            ) from error

    def _damaged(self, problem: object) -> str:
        return damaged(self.kind, self.folder, problem)


def damaged(kind: str, folder: Path, problem: object) -> str:
    """Return the message for a database that cannot be read."""
    return (
        f"The {kind} in {folder} is damaged: {problem}. Nothing in it was changed. Restore the folder from a copy, or "
        "populate a new one."
    )


def remove_others(batch: Any, numbers: Sequence[int]) -> None:
    """Let a write batch remove all runs but some."""
    edges = [-1, *sorted(numbers), _RUNS_MOST]
    for kind in (BLOCK, HAS_STATE, INDEX, STATE):
        for before, after in pairwise(edges):
            if before + 1 < after:
                batch.delete_range(run_key(kind, before + 1), run_key(kind, after))


def stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return record batches of one schema as bytes; no bytes for no batches."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content
