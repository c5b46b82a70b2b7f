"""State in RocksDB: the rows of both sides as of a checkpoint, and the changes of each epoch since.

======================  ==============================================================================================
key                     value
======================  ==============================================================================================
``join``                what the join is: version, spec, schemas
``manifest``            how far it has come, which checkpoint counts, and since which epoch changes follow it
``c`` id side block     a block of rows with weights, of a checkpoint
``e`` epoch side        the changes of an epoch
``last``                what the last epoch gave
======================  ==============================================================================================

An epoch is one synced write batch of its changes, what it gave, and the manifest. A checkpoint is written as a sorted
file and taken in as a whole; it counts once the manifest says so, and one that never did is removed when the state is
opened again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import rocksdict

from juncture.errors import StateError
from juncture.incremental.store.saved import Position, Rows, packed, unpacked
from juncture.kernels.array_types import Ints
from juncture.spec.schema import Side

__all__ = ["RocksStore"]

_VERSION = 1
_JOIN, _MANIFEST, _LAST = b"join", b"manifest", b"last"
_CHECKPOINT, _EPOCH = b"c", b"e"
_BLOCK_ROWS = 1 << 14
_LOG_ROWS_LEAST = 1 << 16
"""Changes that are always read again when a join is opened, rather than have the rows written anew."""
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
        self._folder = folder
        self._schemas = schemas
        self._sync = rocksdict.WriteOptions()
        self._sync.sync = True
        self._database = _opened(folder)
        try:
            self._manifest = self._read_manifest(join)
        except BaseException:
            self._database.close()
            raise

    def _read_manifest(self, join: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is committed, and remove what was about to be."""
        with self._damage():
            described, content = self._database.get(_JOIN), self._database.get(_MANIFEST)
            if described is None:
                batch = rocksdict.WriteBatch(raw_mode=True)
                batch.put(_JOIN, json.dumps({"version": _VERSION, **join}).encode())
                self._database.write(batch, self._sync)
                return {"checkpoint": 0, "blocks": dict.fromkeys(_SIDES, 0), "rows": 0, "since": 1, "log_rows": 0}
            self._check_same(json.loads(described), join)
            if content is None:
                return {"checkpoint": 0, "blocks": dict.fromkeys(_SIDES, 0), "rows": 0, "since": 1, "log_rows": 0}
            manifest: dict[str, Any] = json.loads(content)
            batch = rocksdict.WriteBatch(raw_mode=True)
            batch.delete_range(_checkpoint_key(manifest["checkpoint"] + 1), _CHECKPOINT + b"\xff")
            self._database.write(batch, self._sync)
            return manifest

    def _check_same(self, found: dict[str, Any], wanted: Mapping[str, Any]) -> None:
        if found["version"] != _VERSION:
            raise StateError(
                f"The state in {self._folder} is of version {found['version']}, and this Juncture reads {_VERSION}. "
                "Populate a new folder, or open it by the version that made it."
            )
        for name, value in wanted.items():
            if found.get(name) != value:
                raise StateError(
                    f"The state in {self._folder} is of another join: its {name} is {found.get(name)}, and that of the "
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
            raise StateError(_damaged(self._folder, error)) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise StateError(f"The state cannot be written to {self._folder}: {error}.") from error

    def position(self) -> Position | None:
        """Return how far the join has come; None for one that has not begun."""
        if "epoch" not in self._manifest:
            return None
        found = self._manifest
        return Position(found["epoch"], found["offset"], {side: found["missing"][side] for side in _SIDES})

    def rows(self, side: Side) -> Iterator[tuple[pa.RecordBatch, Ints]]:
        """Yield the rows of a side: those of the last checkpoint, and all changes since."""
        found = self._manifest
        with self._damage():
            for block in range(found["blocks"][side]):
                content = self._database.get(_checkpoint_key(found["checkpoint"], side, block))
                if content is None:
                    raise ValueError(f"block {block} of the {side} side is missing")
                yield unpacked(content, self._schemas[side])
            for epoch in range(found["since"], found.get("epoch", 0) + 1):
                content = self._database.get(_epoch_key(epoch, side))
                if content is not None:
                    yield unpacked(content, self._schemas[side])

    def last(self) -> list[pa.RecordBatch]:
        """Return what the last epoch gave."""
        with self._damage():
            content = self._database.get(_LAST)
            return [] if not content else list(pa.ipc.open_stream(content))

    def commit(self, position: Position, deltas: Mapping[Side, Rows], answer: list[pa.RecordBatch]) -> None:
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

    def checkpoint(self, position: Position, rows: Mapping[Side, Rows]) -> None:
        """Keep all rows anew, in place of the last checkpoint and the changes since."""
        number = self._manifest["checkpoint"] + 1
        with self._writing():
            blocks, count = self._take_in(number, rows)
            batch = rocksdict.WriteBatch(raw_mode=True)
            batch.delete_range(_checkpoint_key(0), _checkpoint_key(number))
            batch.delete_range(_epoch_key(0), _epoch_key(position.epoch + 1))
            manifest = {
                **_told(position),
                "checkpoint": number,
                "blocks": blocks,
                "rows": count,
                "since": position.epoch + 1,
                "log_rows": 0,
            }
            batch.put(_MANIFEST, json.dumps(manifest).encode())
            self._database.write(batch, self._sync)
        self._manifest = manifest

    def _take_in(self, number: int, rows: Mapping[Side, Rows]) -> tuple[dict[str, int], int]:
        """Write the blocks of a checkpoint, and return how many there are of each side, and how many rows."""
        path = self._folder / "checkpoint.sst"
        writer = rocksdict.SstFileWriter(options=_options())
        writer.open(str(path))
        blocks, count = dict.fromkeys(_SIDES, 0), 0
        for side in _SIDES:
            for batch, weights in rows[side]:
                for first in range(0, batch.num_rows, _BLOCK_ROWS):
                    piece = packed(batch.slice(first, _BLOCK_ROWS), weights[first : first + _BLOCK_ROWS])
                    writer[_checkpoint_key(number, side, blocks[side])] = piece
                    blocks[side] += 1
                count += batch.num_rows
        if count:
            writer.finish()
            options = rocksdict.IngestExternalFileOptions()
            options.set_move_files(True)
            self._database.ingest_external_file([str(path)], options)
        return {side: blocks[side] for side in _SIDES}, count

    @property
    def wants_checkpoint(self) -> bool:
        """Whether so much has changed since the last checkpoint that reading it would take long."""
        return bool(self._manifest["log_rows"] > max(_LOG_ROWS_LEAST, self._manifest["rows"]))

    def close(self) -> None:
        """Let another process have the state."""
        self._database.close()


def _told(position: Position) -> dict[str, Any]:
    return {"epoch": position.epoch, "offset": position.offset, "missing": dict(position.missing)}


def _checkpoint_key(number: int, side: Side = "left", block: int = 0) -> bytes:
    return _CHECKPOINT + number.to_bytes(8, "big") + _side_byte(side) + block.to_bytes(4, "big")


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


def _options() -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    return options


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
        return rocksdict.Rdict(str(folder), _options())
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
