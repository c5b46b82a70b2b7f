"""The state of a view or a pipeline in RocksDB: the rows of its sources, and the changes of each epoch since.

======================  ==============================================================================================
key                     value
======================  ==============================================================================================
``view``                identity of the view: version, query, sources
``manifest``            position, current checkpoint, and the first epoch whose changes follow it
``c`` id source block   a block of rows with weights, of a checkpoint
``e`` epoch source      the changes of an epoch
``last``                the output of the last epoch
``b``, ``s``, …         runs of spilled rows, in the format of `juncture.changes`
======================  ==============================================================================================

The state of operators follows from the rows of the sources, and is computed again when the view is opened. So an epoch
writes its input changes only, in one synced write batch. Runs of spilled rows belong to operators. They are removed
when the view is opened, without loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import rocksdict

from juncture.errors import StateError
from juncture.incremental.store.run_files import MANIFEST, RunFiles, damaged, remove_others, stream
from juncture.incremental.store.run_writer import STATE, block_key, options
from juncture.incremental.store.saved import packed, unpacked
from juncture.incremental.store.stored_run import StoredRun
from juncture.incremental.view.operators.operator import Change

_VERSION = 1
_VIEW, _LAST = b"view", b"last"
_CHECKPOINT, _EPOCH = b"c", b"e"
_BLOCK_ROWS = 1 << 14
_LOG_ROWS_LEAST = 1 << 16
"""Below this number of logged changes, no checkpoint is written."""


@dataclass(frozen=True)
class ViewPosition:
    """The position of a view. ``missing`` counts the unmatched deletes of each source."""

    epoch: int
    offset: Any
    missing: Mapping[str, int]


class ViewStore(RunFiles):
    """The state of one view in a folder; raises `StateError` if the folder is damaged, locked, or has other contents.

    ``view`` is the identity of the view as JSON data. ``schemas`` has the stored columns of each source.
    """

    kind = "view"

    def __init__(self, folder: Path, view: Mapping[str, Any], schemas: Mapping[str, pa.Schema]) -> None:
        super().__init__(folder, _opened(folder, self.kind))
        self._schemas = schemas
        self._numbers = {source: number for number, source in enumerate(sorted(schemas))}
        try:
            self._manifest = self._read(view)
        except BaseException:
            self._database.close()
            raise

    def _read(self, view: Mapping[str, Any]) -> dict[str, Any]:
        """Return the committed manifest, and remove uncommitted blocks and files."""
        with self._damage():
            described, content = self._database.get(_VIEW), self._database.get(MANIFEST)
            if described is None:
                self._database.put(_VIEW, json.dumps({"version": _VERSION, **view}).encode(), self._sync)
            else:
                self._check_same(json.loads(described), view)
            manifest: dict[str, Any] = {"checkpoint": 0, "blocks": {}, "rows": 0, "since": 1, "log_rows": 0}
            manifest |= {} if content is None else json.loads(content)
            batch = rocksdict.WriteBatch(raw_mode=True)
            batch.delete_range(_key(_CHECKPOINT, manifest["checkpoint"] + 1), _CHECKPOINT + b"\xff")
            remove_others(batch, [])
            self._database.write(batch, self._sync)
            self._remove_left_over()
            return manifest

    def _check_same(self, stored: dict[str, Any], expected: Mapping[str, Any]) -> None:
        if stored["version"] != _VERSION:
            raise StateError(
                f"Folder {str(self.folder)!r} has a {self.kind} of version {stored['version']}, but this Juncture "
                f"reads version {_VERSION}. Populate a new folder, or use the Juncture that wrote it.",
                name="JN-STATE-VERSION",
            )
        for name, value in expected.items():
            if stored.get(name) != value:
                raise StateError(
                    f"Folder {str(self.folder)!r} belongs to another {self.kind}: its {name} is\n{stored.get(name)}\n"
                    f"Expected\n{value}\nPass another folder.",
                    name="JN-STATE-DAMAGED",
                )

    def position(self) -> ViewPosition | None:
        """Return the position of the view; None before the first epoch."""
        manifest = self._manifest
        return ViewPosition(manifest["epoch"], manifest["offset"], manifest["missing"]) if "epoch" in manifest else None

    def blocks_of(self, source: str) -> int:
        """Return the number of blocks of a source at the last checkpoint."""
        return int(self._manifest["blocks"].get(source, 0))

    def rows(self, source: str) -> Iterator[Change]:
        """Yield the rows of a source at the last checkpoint, then all changes since, in order."""
        manifest, number, schema = self._manifest, self._numbers[source], self._schemas[source]
        with self._damage():
            for block in range(self.blocks_of(source)):
                yield unpacked(self._content(_key(_CHECKPOINT, manifest["checkpoint"], number, block)), schema)
            for epoch in range(manifest["since"], manifest.get("epoch", 0) + 1):
                content = self._database.get(_key(_EPOCH, epoch, number))
                if content is not None:
                    yield unpacked(content, schema)

    def last(self) -> list[pa.RecordBatch]:
        """Return the output of the last epoch."""
        with self._damage():
            content = self._database.get(_LAST)
            return list(pa.ipc.open_stream(content)) if content else []

    def commit(
        self, position: ViewPosition, changes: Mapping[str, Iterable[Change]], answer: list[pa.RecordBatch]
    ) -> None:
        """Commit an epoch: its position, input changes and output."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        rows = 0
        for source, flow in changes.items():
            for changed, weights in flow:
                batch.put(_key(_EPOCH, position.epoch, self._numbers[source]), packed(changed, weights))
                rows += len(weights)
        batch.put(_LAST, stream(answer))
        manifest = self._manifest | _position_fields(position) | {"log_rows": self._manifest["log_rows"] + rows}
        self._commit(batch, manifest)

    def checkpoint(
        self, position: ViewPosition, rows: Mapping[str, Iterable[Change]], answer: list[pa.RecordBatch]
    ) -> None:
        """Write all rows, and replace the last checkpoint and the changes since."""
        number = self._manifest["checkpoint"] + 1
        blocks, count = self._write_blocks(number, rows)
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.delete_range(_key(_CHECKPOINT, 0), _key(_CHECKPOINT, number))
        batch.delete_range(_key(_EPOCH, 0), _key(_EPOCH, position.epoch + 1))
        batch.put(_LAST, stream(answer))
        manifest = {"checkpoint": number, "blocks": blocks, "rows": count, "since": position.epoch + 1, "log_rows": 0}
        self._commit(batch, manifest | _position_fields(position))

    def _write_blocks(self, number: int, rows: Mapping[str, Iterable[Change]]) -> tuple[dict[str, int], int]:
        """Write a checkpoint as one sorted file, and return its blocks per source and its number of rows."""
        path = self.folder / "checkpoint.sst"
        blocks, count = {}, 0
        try:
            writer = rocksdict.SstFileWriter(options=options())
            writer.open(str(path))
            for source in sorted(rows):
                block = 0
                for batch, weights in rows[source]:
                    for first in range(0, batch.num_rows, _BLOCK_ROWS):
                        piece = packed(batch.slice(first, _BLOCK_ROWS), weights[first : first + _BLOCK_ROWS])
                        writer[_key(_CHECKPOINT, number, self._numbers[source], block)] = piece
                        block += 1
                    count += batch.num_rows
                blocks[source] = block
            if count:
                writer.finish()
                moved = rocksdict.IngestExternalFileOptions()
                moved.set_move_files(True)
                self._database.ingest_external_file([str(path)], moved)
        except Exception as error:
            raise StateError(
                f"Folder {str(self.folder)!r}: the {self.kind} cannot be written: {error}. Free disk space, or check "
                "the permissions.",
                name="JN-STATE-WRITE",
            ) from error
        return blocks, count

    def keep_only(self, runs: Sequence[StoredRun]) -> None:
        """Write the changed weights of some runs, unsynced as runs serve this process only, and remove other runs."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for run in runs:
            for block, state in run.changed.items():
                batch.put(block_key(STATE, run.index.number, block), state)
        remove_others(batch, [run.index.number for run in runs])
        with self._writing():
            self._database.write(batch)
        for run in runs:
            run.saved()

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the log of changes is long enough for a checkpoint."""
        return bool(self._manifest["log_rows"] > max(_LOG_ROWS_LEAST, self._manifest["rows"]))


def _position_fields(position: ViewPosition) -> dict[str, Any]:
    return {"epoch": position.epoch, "offset": position.offset, "missing": dict(position.missing)}


def _key(kind: bytes, number: int, source: int = 0, block: int = 0) -> bytes:
    return kind + number.to_bytes(8, "big") + source.to_bytes(2, "big") + block.to_bytes(4, "big")


def _opened(folder: Path, kind: str) -> Any:
    if folder.exists() and not folder.is_dir():
        raise StateError(
            f"{str(folder)!r} is not a folder. Pass one that is empty, new, or of the same {kind}.",
            name="JN-STATE-DAMAGED",
        )
    if folder.exists() and not (folder / "CURRENT").exists() and any(folder.iterdir()):
        raise StateError(
            f"Folder {str(folder)!r} has other files, or an incomplete {kind}. Pass one that is empty, new, or of the "
            f"same {kind}.",
            name="JN-STATE-DAMAGED",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return rocksdict.Rdict(str(folder), options())
    except Exception as error:
        if "lock" in str(error).lower():
            raise StateError(
                f"Folder {str(folder)!r}: its {kind} is open in another process, or twice in this one. Close the other "
                "one first.",
                name="JN-STATE-IN-USE",
            ) from error
        raise StateError(damaged(kind, folder, error), name="JN-STATE-DAMAGED") from error
