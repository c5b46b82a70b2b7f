"""State in RocksDB: sorted runs of both sides as of a checkpoint, and the changes of each epoch since.

======================  ==============================================================================================
key                     value
======================  ==============================================================================================
``join``                definition of the join: version, spec, schemas
``manifest``            position, committed runs, and the first epoch whose changes are not in them
``b`` run block         a block of rows
``s`` run block         its mutable state: weights and counts; none if each weight is 1 and each count 0
``i`` run               the index of a run
``h`` run               which of its blocks have a state
``e`` epoch side        the changes of an epoch
``last``                changes of the result in the last epoch
======================  ==============================================================================================

Numbers in keys are big-endian, so that blocks are in the order of their rows. An epoch is one synced write batch of
its changes, its result, and the manifest. A run is written as a sorted file and ingested as a whole. It is committed
when the manifest names it; uncommitted runs are removed when the state is opened.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rocksdict

from juncture.errors import StateError
from juncture.incremental.store.blocks import Index
from juncture.incremental.store.run_files import MANIFEST, RunFiles, damaged, remove_others, stream
from juncture.incremental.store.run_writer import HAS_STATE, INDEX, STATE, block_key, options, run_key
from juncture.incremental.store.saved import Changed, Position, packed, unpacked
from juncture.incremental.store.stored_run import StoredRun
from juncture.kernels.array_types import Ints, Mask
from juncture.spec.schema import SIDES, Side

_VERSION = 3
_JOIN, _LAST = b"join", b"last"
_EPOCH = b"e"
_LOG_ROWS_LEAST = 1 << 16
"""Up to this many changes are replayed when a join is opened, before rows are written again."""
_OF_NEW = ("LOCK", "LOG", "IDENTITY", "MANIFEST-", "OPTIONS-", "rocksdict-", "0")
"""Prefixes of files that exist if the process ends while it creates a database."""


class RocksStore(RunFiles):
    """The state of one join in a folder, which is created if it does not exist."""

    def __init__(self, folder: Path, join: Mapping[str, Any], schemas: Mapping[Side, pa.Schema]) -> None:
        super().__init__(folder, _opened(folder))
        self._schemas = schemas
        try:
            self._manifest = self._read_manifest(join)
            self._next = self._manifest.get("next", 1)
        except BaseException:
            self._database.close()
            raise

    def _read_manifest(self, join: Mapping[str, Any]) -> dict[str, Any]:
        """Return the committed manifest, and remove what is not committed."""
        with self._damage():
            described, content = self._database.get(_JOIN), self._database.get(MANIFEST)
            batch = rocksdict.WriteBatch(raw_mode=True)
            manifest: dict[str, Any] = {"runs": {side: [] for side in SIDES}, "rows": 0, "since": 1, "log_rows": 0}
            if described is None:
                batch.put(_JOIN, json.dumps({"version": _VERSION, **join}).encode())
            else:
                self._check_same(json.loads(described), join)
                manifest |= {} if content is None else json.loads(content)
                remove_others(batch, [number for side in SIDES for number, _ in manifest["runs"][side]])
            self._database.write(batch, self._sync)
            self._remove_left_over()
            shutil.rmtree(self.folder / "parts", ignore_errors=True)
            return manifest

    def _check_same(self, found: dict[str, Any], wanted: Mapping[str, Any]) -> None:
        if found["version"] != _VERSION:
            raise StateError(
                f"State folder {self.folder} has version {found['version']}, but this Juncture reads version "
                f"{_VERSION}. Populate a new folder, or open it with the version of Juncture that wrote it.",
                name="JN-STATE-VERSION",
            )
        for name, value in wanted.items():
            if found.get(name) != value:
                raise StateError(
                    f"State folder {self.folder} belongs to another join: its {name} is {found.get(name)}, but this "
                    f"join has {value}. Pass another folder.",
                    name="JN-STATE-FOREIGN",
                )

    def position(self) -> Position | None:
        """Return the position of the join; None for a new join."""
        if "epoch" not in self._manifest:
            return None
        found = self._manifest
        return Position(found["epoch"], found["offset"], {side: found["missing"][side] for side in SIDES})

    def runs(self, side: Side) -> list[tuple[Index, Mask, int]]:
        """Return the runs of a side as of the last checkpoint: index, blocks with a state, number of living rows."""
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

    def last(self) -> list[pa.RecordBatch]:
        """Return the changes of the result in the last epoch."""
        with self._damage():
            content = self._database.get(_LAST)
            return [] if not content else list(pa.ipc.open_stream(content))

    def commit(self, position: Position, deltas: Mapping[Side, Changed], answer: list[pa.RecordBatch]) -> None:
        """Commit an epoch: its position, changes and result."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        rows = 0
        for side, changes in deltas.items():
            for delta, weights in changes:
                if delta.num_rows:
                    batch.put(_epoch_key(position.epoch, side), packed(delta, weights))
                    rows += delta.num_rows
        batch.put(_LAST, stream(answer))
        self._commit(
            batch, self._manifest | _position_fields(position) | {"log_rows": self._manifest["log_rows"] + rows}
        )

    def checkpoint(self, position: Position, runs: Mapping[Side, Sequence[StoredRun]]) -> None:
        """Commit runs with their changed states, in place of earlier runs and the changes since."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for run in (run for side in SIDES for run in runs[side] if run.changed):
            for block, state in run.changed.items():
                batch.put(block_key(STATE, run.index.number, block), state)
            has_state = run.has_state.copy()
            has_state[list(run.changed)] = True
            batch.put(run_key(HAS_STATE, run.index.number), np.packbits(has_state).tobytes())
        numbers = {side: [(run.index.number, run.living_rows) for run in runs[side]] for side in SIDES}
        remove_others(batch, [number for side in SIDES for number, _ in numbers[side]])
        batch.delete_range(_epoch_key(0), _epoch_key(position.epoch + 1))
        manifest = {
            **_position_fields(position),
            "runs": numbers,
            "rows": sum(len(run) for side in SIDES for run in runs[side]),
            "next": self._next,
            "since": position.epoch + 1,
            "log_rows": 0,
        }
        self._commit(batch, manifest)

    @property
    def wants_checkpoint(self) -> bool:
        """Whether replaying the changes since the last checkpoint would take long."""
        return bool(self._manifest["log_rows"] > max(_LOG_ROWS_LEAST, self._manifest["rows"]))


def _position_fields(position: Position) -> dict[str, Any]:
    return {"epoch": position.epoch, "offset": position.offset, "missing": dict(position.missing)}


def _epoch_key(epoch: int, side: Side = "left") -> bytes:
    return _EPOCH + epoch.to_bytes(8, "big") + _side_byte(side)


def _side_byte(side: Side) -> bytes:
    return b"\x00" if side == "left" else b"\x01"


def _check_new(folder: Path) -> None:
    """Raise an error for a folder without a database that has other files, or parts of a database."""
    paths = list(folder.iterdir())
    if any(path.suffix == ".sst" or (path.suffix == ".log" and path.stat().st_size) for path in paths):
        raise StateError(damaged(RocksStore.kind, folder, "the file CURRENT is missing"), name="JN-STATE-DAMAGED")
    if any(not path.name.startswith(_OF_NEW) for path in paths):
        raise StateError(
            f"Folder {folder} has other files and no state of a join. Pass an empty folder, a new one, or one of the "
            "same join.",
            name="JN-STATE-FOREIGN",
        )


def _opened(folder: Path) -> Any:
    if folder.exists() and not folder.is_dir():
        raise StateError(
            f"state={str(folder)!r} is not a folder. Pass an empty folder, a new one, or one of the same join.",
            name="JN-STATE-FOREIGN",
        )
    if folder.exists() and not (folder / "CURRENT").exists():
        _check_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return rocksdict.Rdict(str(folder), options())
    except Exception as error:
        if "lock" in str(error).lower():
            raise StateError(
                f"State folder {folder} is open in another process, or twice in this one. Only one join can have it "
                "open. Close the other one first.",
                name="JN-STATE-IN-USE",
            ) from error
        raise StateError(damaged(RocksStore.kind, folder, error), name="JN-STATE-DAMAGED") from error
