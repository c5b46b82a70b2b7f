"""State in RocksDB: sorted runs of both sides as of a checkpoint, and the changes of each epoch since.

======================  ==============================================================================================
key                     value
======================  ==============================================================================================
``join``                what the join is: version, spec, schemas
``manifest``            how far it has come, which runs count, and since which epoch changes follow them
``b`` run block         a block of rows
``s`` run block         what changes of them: weights and counts; none where each is there once, and has no match
``i`` run               the index of a run
``h`` run               which of its blocks have a state
``e`` epoch side        the changes of an epoch
``last``                what the last epoch gave
======================  ==============================================================================================

Numbers in keys are written with the most significant byte first, so that blocks lie in the order of their rows. An
epoch is one synced write batch of its changes, what it gave, and the manifest. A run is written as a sorted file and
taken in as a whole; it counts once the manifest says so, and one that never did is removed when the state is opened.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rocksdict

from juncture.errors import StateError
from juncture.incremental.store.blocks import BlockRows, Index
from juncture.incremental.store.run_writer import BLOCK, HAS_STATE, INDEX, STATE, RunWriter, block_key, options, run_key
from juncture.incremental.store.saved import Changed, Position, packed, unpacked
from juncture.incremental.store.stored_run import StoredRun
from juncture.kernels.array_types import Ints, Mask
from juncture.spec.schema import Side

_log = logging.getLogger(__name__)

_VERSION = 3
_JOIN, _MANIFEST, _LAST = b"join", b"manifest", b"last"
_EPOCH = b"e"
_NEW_RUN = "run-"
_RUNS_MOST = (1 << 63) - 1
_LOG_ROWS_LEAST = 1 << 16
"""Changes that are always read again when a join is opened, rather than have the rows written anew."""
_CORRUPTION = "Corruption"
"""What errors of RocksDB begin with that are about damage."""
_OF_NEW = ("LOCK", "LOG", "IDENTITY", "MANIFEST-", "OPTIONS-", "rocksdict-", "0")
"""What begins the names of files that are there when the process ends while it makes a database."""
_SIDES: tuple[Side, Side] = ("left", "right")


class RocksStore:
    """The state of one join in a folder.

    Parameters
    ----------
    folder
        The folder; it is made if it is not there.
    join
        What the join is, as plain data.
    schemas
        The columns that are held of both sides.

    Raises
    ------
    StateError
        If the folder holds something else or the state of another join or version, another process has it open, or it
        is damaged.
    """

    def __init__(self, folder: Path, join: Mapping[str, Any], schemas: Mapping[Side, pa.Schema]) -> None:
        self.folder = folder
        self._schemas = schemas
        self._sync = rocksdict.WriteOptions()
        self._sync.sync = True
        self._database = _opened(folder)
        try:
            self._manifest = self._read_manifest(join)
            self._next: int = self._manifest.get("next", 1)
        except BaseException:
            self._database.close()
            raise

    def _read_manifest(self, join: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is committed, and remove what was about to be."""
        with self._damage():
            described, content = self._database.get(_JOIN), self._database.get(_MANIFEST)
            batch = rocksdict.WriteBatch(raw_mode=True)
            manifest: dict[str, Any] = {"runs": {side: [] for side in _SIDES}, "rows": 0, "since": 1, "log_rows": 0}
            if described is None:
                batch.put(_JOIN, json.dumps({"version": _VERSION, **join}).encode())
            else:
                self._check_same(json.loads(described), join)
                manifest |= {} if content is None else json.loads(content)
                _remove_others(batch, [number for side in _SIDES for number, _ in manifest["runs"][side]])
            self._database.write(batch, self._sync)
            for left_over in self.folder.glob(f"{_NEW_RUN}*.sst"):
                left_over.unlink()
            shutil.rmtree(self.folder / "parts", ignore_errors=True)
            return manifest

    def _check_same(self, found: dict[str, Any], wanted: Mapping[str, Any]) -> None:
        if found["version"] != _VERSION:
            raise StateError(
                f"The state in {self.folder} is of version {found['version']}, and this Juncture reads {_VERSION}. "
                "Populate a new folder, or open it by the version that made it."
            )
        for name, value in wanted.items():
            if found.get(name) != value:
                raise StateError(
                    f"The state in {self.folder} is of another join: its {name} is {found.get(name)}, and that of the "
                    f"join {value}. Pass another folder for another join."
                )

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Say of anything that cannot be read that the state is damaged."""
        try:
            yield
        except StateError:
            raise
        except Exception as error:
            # The binding has no exceptions of its own.
            raise StateError(_damaged(self.folder, error)) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            # What merges in the background has found damage, which RocksDB then says of each write.
            if str(error).startswith(_CORRUPTION):
                raise StateError(_damaged(self.folder, error)) from error
            raise StateError(f"The state cannot be written to {self.folder}: {error}.") from error

    def position(self) -> Position | None:
        """Return how far the join has come; None for one that has not begun."""
        if "epoch" not in self._manifest:
            return None
        found = self._manifest
        return Position(found["epoch"], found["offset"], {side: found["missing"][side] for side in _SIDES})

    def runs(self, side: Side) -> list[tuple[Index, Mask, int]]:
        """Return the runs of a side as of the last checkpoint: indexes, which blocks have a state, and living rows."""
        found = []
        with self._damage():
            for number, living in self._manifest["runs"][side]:
                index = Index.unpacked(self._content(run_key(INDEX, number)))
                bits = np.frombuffer(self._content(run_key(HAS_STATE, number)), np.uint8)
                found.append((index, np.unpackbits(bits, count=len(index)).astype(np.bool_), living))
        return found

    def log(self, side: Side) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the changes of a side since the last checkpoint."""
        with self._damage():
            for epoch in range(self._manifest["since"], self._manifest.get("epoch", 0) + 1):
                content = self._database.get(_epoch_key(epoch, side))
                if content is not None:
                    yield unpacked(content, self._schemas[side])

    def blocks(self, run: int, blocks: Sequence[int]) -> list[bytes]:
        """Return some blocks of a run."""
        return self._several([block_key(BLOCK, run, block) for block in blocks])

    def states(self, run: int, blocks: Sequence[int]) -> list[bytes]:
        """Return the states of some blocks, which have one."""
        return self._several([block_key(STATE, run, block) for block in blocks])

    def _several(self, keys: list[bytes]) -> list[bytes]:
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

    def last(self) -> list[pa.RecordBatch]:
        """Return what the last epoch gave."""
        with self._damage():
            content = self._database.get(_LAST)
            return [] if not content else list(pa.ipc.open_stream(content))

    def commit(self, position: Position, deltas: Mapping[Side, Changed], answer: list[pa.RecordBatch]) -> None:
        """Keep an epoch: its number and offset, what changed, and what it gave."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        rows = 0
        for side, changes in deltas.items():
            for delta, weights in changes:
                if delta.num_rows:
                    batch.put(_epoch_key(position.epoch, side), packed(delta, weights))
                    rows += delta.num_rows
        batch.put(_LAST, _stream(answer))
        manifest = self._manifest | _told(position) | {"log_rows": self._manifest["log_rows"] + rows}
        batch.put(_MANIFEST, json.dumps(manifest).encode())
        with self._writing():
            self._database.write(batch, self._sync)
        self._manifest = manifest

    def writer(self, *, is_sorted: bool) -> RunWriter:
        """Begin to write a run, which is taken in by `take_in`."""
        number = self._next
        self._next += 1
        with self._writing():
            return RunWriter(self.folder / f"{_NEW_RUN}{number}.sst", number, is_sorted=is_sorted)

    def take_in(self, writer: RunWriter) -> tuple[Index, Mask] | None:
        """Take in a run, which counts once a checkpoint names it; return what `runs` does of it, None without rows."""
        with self._writing():
            written = writer.finish()
            if written is not None:
                moved = rocksdict.IngestExternalFileOptions()
                moved.set_move_files(True)
                self._database.ingest_external_file([str(writer.path)], moved)
            return written

    def write(self, pieces: Iterable[BlockRows], *, is_sorted: bool) -> tuple[Index, Mask] | None:
        """Write rows as a run, and take it in."""
        writer = self.writer(is_sorted=is_sorted)
        for rows in pieces:
            with self._writing():
                writer.add(rows)
        return self.take_in(writer)

    def checkpoint(self, position: Position, runs: Mapping[Side, Sequence[StoredRun]]) -> None:
        """Have these runs count, with what has changed of them, in place of others and of the changes since."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for run in (run for side in _SIDES for run in runs[side] if run.changed):
            for block, state in run.changed.items():
                batch.put(block_key(STATE, run.index.number, block), state)
            has_state = run.has_state.copy()
            has_state[list(run.changed)] = True
            batch.put(run_key(HAS_STATE, run.index.number), np.packbits(has_state).tobytes())
        numbers = {side: [(run.index.number, run.living_rows) for run in runs[side]] for side in _SIDES}
        _remove_others(batch, [number for side in _SIDES for number, _ in numbers[side]])
        batch.delete_range(_epoch_key(0), _epoch_key(position.epoch + 1))
        manifest = {
            **_told(position),
            "runs": numbers,
            "rows": sum(len(run) for side in _SIDES for run in runs[side]),
            "next": self._next,
            "since": position.epoch + 1,
            "log_rows": 0,
        }
        batch.put(_MANIFEST, json.dumps(manifest).encode())
        with self._writing():
            self._database.write(batch, self._sync)
        self._manifest = manifest

    @property
    def wants_checkpoint(self) -> bool:
        """Whether so much has changed since the last checkpoint that reading it would take long."""
        return bool(self._manifest["log_rows"] > max(_LOG_ROWS_LEAST, self._manifest["rows"]))

    def close(self) -> None:
        """Let another process have the state.

        All epochs are on disk before, so that an error in the background that comes out now loses nothing: whoever
        reads what is damaged is told so.
        """
        try:
            self._database.close()
        except Exception as error:
            _log.warning("%s", _damaged(self.folder, error))


def _told(position: Position) -> dict[str, Any]:
    return {"epoch": position.epoch, "offset": position.offset, "missing": dict(position.missing)}


def _remove_others(batch: Any, numbers: Sequence[int]) -> None:
    """Remove all runs but some."""
    edges = [-1, *sorted(numbers), _RUNS_MOST]
    for kind in (BLOCK, HAS_STATE, INDEX, STATE):
        for before, after in pairwise(edges):
            if before + 1 < after:
                batch.delete_range(run_key(kind, before + 1), run_key(kind, after))


def _epoch_key(epoch: int, side: Side = "left") -> bytes:
    return _EPOCH + epoch.to_bytes(8, "big") + _side_byte(side)


def _side_byte(side: Side) -> bytes:
    return b"\x00" if side == "left" else b"\x01"


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _check_new(folder: Path) -> None:
    """Refuse a folder without a database that holds other files, or lacks a part of one: a new one would be made."""
    paths = list(folder.iterdir())
    if any(path.suffix == ".sst" or (path.suffix == ".log" and path.stat().st_size) for path in paths):
        raise StateError(_damaged(folder, "the file CURRENT is missing"))
    if any(not path.name.startswith(_OF_NEW) for path in paths):
        raise StateError(
            f"The folder {folder} holds other files, and no state of a join. Pass one that is empty, new, or of the "
            "same join."
        )


def _opened(folder: Path) -> Any:
    if folder.exists() and not folder.is_dir():
        raise StateError(f"state={str(folder)!r} is no folder. Pass one that is empty, new, or of the same join.")
    if folder.exists() and not (folder / "CURRENT").exists():
        _check_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return rocksdict.Rdict(str(folder), options())
    except Exception as error:
        if "lock" in str(error).lower():
            raise StateError(
                f"The state in {folder} is open in another process, or twice in this one. One at a time can have it: "
                "close the other join first."
            ) from error
        raise StateError(_damaged(folder, error)) from error


def _damaged(folder: Path, problem: object) -> str:
    return (
        f"The state in {folder} is damaged, and nothing in it was changed: {problem}. Restore the folder from a copy, "
        "or populate a new one."
    )
