"""The state of a maintained query in RocksDB: the rows of its tables as of a checkpoint, and the changes since.

=========================  ===========================================================================================
key                        value
=========================  ===========================================================================================
``identity``               what is maintained: version, kind, definition
``manifest``               position, committed runs of each table, and the first epoch whose changes are not in them
``e`` epoch table part     changes of a table in an epoch
``last`` answer            changes of an answer in the last epoch, unless they are many
``r`` run ``b`` block      a block of rows
``r`` run ``s`` block      its mutable state: weights and counts; none if each weight is 1 and each count 0
``r`` run ``b`` part       of many changes of an answer in the last epoch, which are a run of their own: some of them
``r`` run ``i``            the index of a run
``r`` run ``h``            which of its blocks have a state
=========================  ===========================================================================================

Numbers in keys are big-endian, so that blocks are in the order of their rows. The entries of a run are consecutive, so
that RocksDB has no reason to compact it with other runs: runs are merged by `merging`. A run is written as a sorted
file and ingested as a whole. It is committed when the manifest names it. Runs that the manifest does not name belong to
this process, and are removed when the state is opened.

An epoch is one synced write batch of its changes, its result and the manifest. After it, the epoch number is written to
the file ``epoch``. RocksDB does not notice a removed or shortened write-ahead log. In that case the manifest has an
earlier epoch than the file.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import rocksdict

from juncture.errors import StateError
from juncture.incremental.changes.change_batch import ChangeBatches
from juncture.incremental.state.blocks import BlockRows, Index
from juncture.incremental.state.policy import MemoryPolicy
from juncture.incremental.state.records import EPOCH_FILE, Checkpoint, EpochFile, Position, packed, stream, unpacked
from juncture.incremental.state.run_writer import (
    BLOCK,
    HAS_STATE,
    INDEX,
    RUN,
    STATE,
    RunWriter,
    options,
    run_key,
    write_parts,
)
from juncture.incremental.state.store_errors import StoreErrors
from juncture.incremental.state.stored_run import StoredRun
from juncture.kernels.array_types import Mask

_log = logging.getLogger(__name__)

_VERSION = 6
_IDENTITY, _MANIFEST, _LAST, _EPOCH = b"identity", b"manifest", b"last ", b"e"
_EARLIER_IDENTITIES = b"join", b"view"  # keys of the identity in versions up to 3


_LARGE_BYTES = 1 << 24
"""Changes of an answer with more bytes are written to a file of their own, in place of the write-ahead log."""

_NEW_RUN = "run-"
_OF_NEW = ("LOCK", "LOG", "IDENTITY", "MANIFEST-", "OPTIONS-", "rocksdict-", "0", EPOCH_FILE)
"""Prefixes of files that exist if the process ends while it creates a database."""


class Store:
    """The state of one maintained query of a ``kind`` in a folder, which is created if it does not exist.

    ``identity`` is its definition as JSON data, and ``schemas`` the stored columns of each table. `StateError` is
    raised if the folder is damaged, in use, or has other contents.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        policy: MemoryPolicy,
        identity: Mapping[str, Any],
        schemas: Mapping[str, pa.Schema],
    ) -> None:
        self.folder = folder
        self.policy = policy
        self._kind = kind
        self.errors = StoreErrors(kind, folder)
        self._epoch_file = EpochFile(folder / EPOCH_FILE)
        self._schemas = schemas
        self._tables = {table: number for number, table in enumerate(sorted(schemas))}
        self._sync = rocksdict.WriteOptions()
        self._sync.sync = True
        self._check_folder()
        described = {"version": _VERSION, "kind": kind, **identity}
        self._check_content(described)
        self._database = self._opened()
        try:
            self._manifest = self._read_manifest(described)
        except BaseException:
            self._epoch_file.close()
            self._database.close()
            raise
        self._epoch_file.write(self._manifest.get("epoch", 0), sync=True)

    # Opening

    def _check_folder(self) -> None:
        """Raise an error if the folder has other files, or parts of a database."""
        if self.folder.exists() and not self.folder.is_dir():
            raise StateError(
                f"state={str(self.folder)!r} is not a folder. Pass an empty folder, a new one, or one of the same "
                f"{self._kind}.",
                name="JN-STATE-FOREIGN",
            )
        if not self.folder.exists() or (self.folder / "CURRENT").exists():
            return
        paths = list(self.folder.iterdir())
        if any(path.suffix == ".sst" or (path.suffix == ".log" and path.stat().st_size) for path in paths):
            raise self.errors.damaged("the file CURRENT is missing")
        if any(not path.name.startswith(_OF_NEW) for path in paths):
            raise StateError(
                f"Folder {self.folder} has other files and no state of a {self._kind}. Pass an empty folder, a new "
                f"one, or one of the same {self._kind}.",
                name="JN-STATE-FOREIGN",
            )
        if self._recorded_epoch():
            raise self.errors.damaged("its database is missing")

    def _check_content(self, expected: Mapping[str, Any]) -> None:
        """Raise an error if the folder has other contents, or lacks committed epochs, without changing a file."""
        if not (self.folder / "CURRENT").exists():
            return
        # Read first, because another process may commit epochs meanwhile.
        recorded = self._recorded_epoch()
        try:
            access = rocksdict.AccessType.read_only(False)
            database = rocksdict.Rdict(str(self.folder), options(self.policy), access_type=access)
        except Exception:
            # Opening it for writing raises the error, or finds that another process was changing the files.
            return
        try:
            with self.errors.reading():
                stored, content = database.get(_IDENTITY), database.get(_MANIFEST)
                is_earlier = any(database.get(key) is not None for key in _EARLIER_IDENTITIES)
        finally:
            database.close()
        if stored is not None or is_earlier:
            self._check_same({"version": "3 or earlier"} if stored is None else json.loads(stored), expected)
        epoch = 0 if content is None else json.loads(content).get("epoch", 0)
        if recorded is None and stored is not None:
            raise self.errors.damaged(f"the file {EPOCH_FILE!r} is missing")
        if recorded is not None and epoch < recorded:
            raise self.errors.damaged(
                f"its write-ahead log ends with epoch {epoch:,}, but epoch {recorded:,} was committed"
            )

    def _check_same(self, stored: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        if stored["version"] != expected["version"]:
            raise StateError(
                f"Folder {self.folder} has state of version {stored['version']}, but this Juncture reads version "
                f"{expected['version']}. Populate a new folder, or open it with the version of Juncture that wrote it.",
                name="JN-STATE-VERSION",
            )
        for name, value in expected.items():
            if stored.get(name) != value:
                raise StateError(
                    f"Folder {self.folder} belongs to another {self._kind}: its {name} is\n{stored.get(name)}\n"
                    f"Expected\n{value}\nPass another folder.",
                    name="JN-STATE-FOREIGN",
                )

    def _opened(self) -> Any:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # It exists before the database does, and RocksDB syncs the folder.
            self._epoch_file.open()
            return rocksdict.Rdict(str(self.folder), options(self.policy))
        except Exception as error:
            self._epoch_file.close()
            if "lock" in str(error).lower():
                raise StateError(
                    f"State folder {self.folder} is open in another process, or twice in this one. Close the other "
                    f"{self._kind} first.",
                    name="JN-STATE-IN-USE",
                ) from error
            raise self.errors.unusable(error) from error

    def _recorded_epoch(self) -> int | None:
        try:
            return self._epoch_file.read()
        except ValueError as error:
            raise self.errors.damaged(f"the file {EPOCH_FILE!r} is not a number") from error

    def _read_manifest(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """Return the committed manifest, and remove what is not committed."""
        with self.errors.reading():
            content = self._database.get(_MANIFEST)
            manifest: dict[str, Any] = {"runs": {}, "rows": 0, "since": 1, "log": {}}
            manifest |= {} if content is None else json.loads(content)
            self._runs = self._stored_runs()
            self._next = max(self._runs, default=0) + 1
            batch = rocksdict.WriteBatch(raw_mode=True)
            if self._database.get(_IDENTITY) is None:
                batch.put(_IDENTITY, json.dumps(identity).encode())
            removed = self._runs - _numbers(manifest)
            _remove(batch, removed)
            self._database.write(batch, self._sync)
            self._runs -= removed
            for left_over in self.folder.glob(f"{_NEW_RUN}*.sst"):
                left_over.unlink()
            shutil.rmtree(self.folder / "parts", ignore_errors=True)
            return manifest

    def _stored_runs(self) -> set[int]:
        numbers: set[int] = set()
        entries = self._database.iter()
        entries.seek(RUN)
        while entries.valid() and entries.key().startswith(RUN):
            number = int.from_bytes(entries.key()[1:9], "big")
            numbers.add(number)
            entries.seek(run_key(number + 1))
        return numbers

    # Reading

    def position(self) -> Position | None:
        """Return the position of the query; None before the first epoch."""
        manifest = self._manifest
        if "epoch" not in manifest:
            return None
        return Position(**{each.name: manifest[each.name] for each in fields(Position) if each.name in manifest})

    def runs(self, table: str) -> list[tuple[Index, Mask, int]]:
        """Return the runs of a table as of the last checkpoint: index, blocks with a state, number of living rows."""
        runs = []
        with self.errors.reading():
            for number, living in self._manifest["runs"].get(table, []):
                index = Index.unpacked(self._content(run_key(number, INDEX)))
                bits = np.frombuffer(self._content(run_key(number, HAS_STATE)), np.uint8)
                runs.append((index, np.unpackbits(bits, count=len(index)).astype(np.bool_), living))
        return runs

    def notes(self) -> Mapping[str, Any]:
        """Return what was noted of each table at the last checkpoint; nothing before the first one."""
        notes: Mapping[str, Any] = self._manifest.get("notes", {})
        return notes

    def epochs(self) -> Iterator[dict[str, ChangeBatches]]:
        """Yield the changes of each table in each epoch since the last checkpoint."""
        rows = 0
        with self.errors.reading():
            for epoch in range(self._manifest["since"], self._manifest.get("epoch", 0) + 1):
                changes: dict[str, ChangeBatches] = {table: [] for table in self._schemas}
                for table, schema in self._schemas.items():
                    while content := self._database.get(self._epoch_key(epoch, table, len(changes[table]))):
                        changes[table].append(unpacked(content, schema))
                rows += sum(len(weights) for each in changes.values() for _, weights in each)
                yield changes
            if rows != self.logged_rows:
                raise ValueError(f"it has {rows:,} instead of {self.logged_rows:,} changes since the checkpoint")

    def last(self, answer: str) -> list[pa.RecordBatch] | None:
        """Return the changes of an answer in the last epoch; None if it was populated and they were not stored."""
        with self.errors.reading():
            if answer in self._last_runs:
                number, parts = self._last_runs[answer]
                streams = (pa.ipc.open_stream(self._content(run_key(number, BLOCK, part))) for part in range(parts))
                return [batch for each in streams for batch in each]
            content = self._database.get(_LAST + answer.encode())
            return None if content is None else list(pa.ipc.open_stream(content)) if content else []

    def blocks(self, run: int, blocks: Sequence[int]) -> list[bytes]:
        """Return some blocks of a run."""
        return self._get_many([run_key(run, BLOCK, block) for block in blocks])

    def states(self, run: int, blocks: Sequence[int]) -> list[bytes]:
        """Return the states of some blocks that have one."""
        return self._get_many([run_key(run, STATE, block) for block in blocks])

    def _get_many(self, keys: list[bytes]) -> list[bytes]:
        if not keys:
            return []
        with self.errors.reading():
            contents: list[bytes] = self._database.get(keys)
            if any(content is None for content in contents):
                raise ValueError("a block is missing")
            return contents

    def _content(self, key: bytes) -> bytes:
        content: bytes | None = self._database.get(key)
        if content is None:
            raise ValueError(f"the entry {key!r} is missing")
        return content

    # Writing runs

    def writer(self, *, is_sorted: bool) -> RunWriter:
        """Begin to write a run for `take_in`."""
        number = self._next
        self._next += 1
        with self.errors.writing():
            return RunWriter(self._new_path(number), number, self.policy, is_sorted=is_sorted)

    def _new_path(self, number: int) -> Path:
        return self.folder / f"{_NEW_RUN}{number}.sst"

    def take_in(self, writer: RunWriter) -> tuple[Index, Mask] | None:
        """Ingest a run; return its index, and which of its blocks have a state; None without rows."""
        with self.errors.writing():
            written = writer.finish()
            if written is not None:
                self._ingest(writer.paths, written[0].number)
            return written

    def _ingest(self, paths: Iterable[Path], number: int) -> None:
        moved = rocksdict.IngestExternalFileOptions()
        moved.set_move_files(True)
        self._database.ingest_external_file([str(path) for path in paths], moved)
        self._runs.add(number)

    def write(self, pieces: Iterable[BlockRows], *, is_sorted: bool) -> tuple[Index, Mask] | None:
        """Write rows as a run, and ingest it."""
        writer = self.writer(is_sorted=is_sorted)
        for rows in pieces:
            self.add(writer, rows)
        return self.take_in(writer)

    def add(self, writer: RunWriter, rows: BlockRows) -> None:
        """Append rows to a run that is being written."""
        with self.errors.writing():
            writer.add(rows)

    def _put_answers(self, batch: Any, answers: Mapping[str, list[pa.RecordBatch]]) -> Mapping[str, tuple[int, int]]:
        """Let a write batch write the changes of answers; return the runs with many, and the number of their parts."""
        runs = {}
        for name, changes in answers.items():
            key = _LAST + name.encode()
            if sum(each.nbytes for each in changes) <= _LARGE_BYTES:
                batch.put(key, stream(changes))
                continue
            rows = self.policy.batch_rows
            parts = (each.slice(at, rows) for each in changes for at in range(0, each.num_rows, rows))
            number, self._next = self._next, self._next + 1
            path = self._new_path(number)
            with self.errors.writing():
                runs[name] = number, write_parts(path, number, self.policy, map(_stream_of, parts))
                self._ingest([path], number)
            batch.delete(key)
        return runs

    @property
    def _last_runs(self) -> Mapping[str, tuple[int, int]]:
        """The runs with many changes of answers in the last epoch, and the number of their parts."""
        runs: Mapping[str, tuple[int, int]] = self._manifest.get("last", {})
        return runs

    # Committing

    def commit(
        self,
        position: Position,
        changes: Mapping[str, ChangeBatches],
        answers: Mapping[str, list[pa.RecordBatch]],
    ) -> None:
        """Commit an epoch: its position, changes and answers."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        log = dict(self._manifest["log"])
        for table, table_changes in changes.items():
            for part, each in enumerate(each for each in table_changes if len(each.weights)):
                batch.put(self._epoch_key(position.epoch, table, part), packed(each))
                log[table] = log.get(table, 0) + len(each.weights)
        before = {number for number, _ in self._last_runs.values()}
        last = self._put_answers(batch, answers)
        _remove(batch, before)
        manifest = {name: each for name, each in self._manifest.items() if name != "last"}
        self._commit(batch, manifest | asdict(position) | {"log": log} | ({"last": last} if last else {}))
        self._runs -= before

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Commit runs with their changed states, in place of all earlier runs and the changes since."""
        self._checkpoint(rocksdict.WriteBatch(raw_mode=True), checkpoint, self._last_runs)

    def replace(
        self,
        identity: Mapping[str, Any],
        schemas: Mapping[str, pa.Schema],
        answers: Mapping[str, list[pa.RecordBatch]] | None,
        checkpoint: Checkpoint,
    ) -> None:
        """Commit another query: its definition, columns of tables, answers if they are stored, and a checkpoint."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.put(_IDENTITY, json.dumps({"version": _VERSION, "kind": self._kind, **identity}).encode())
        batch.delete_range(_LAST, _LAST + b"\xff")
        self._checkpoint(batch, checkpoint, self._put_answers(batch, answers or {}))
        self._schemas = schemas
        self._tables = {table: number for number, table in enumerate(sorted(schemas))}

    def _checkpoint(self, batch: Any, checkpoint: Checkpoint, last: Mapping[str, tuple[int, int]]) -> None:
        runs, position = checkpoint.runs, checkpoint.position
        for run in (run for each in runs.values() for run in each):
            _put_states(batch, run)
        numbers = {table: [(run.index.number, run.living_rows) for run in each] for table, each in runs.items()}
        manifest = {**asdict(position), "runs": numbers, "notes": checkpoint.notes, "log": {}}
        manifest |= {"rows": checkpoint.rewritten_rows, "since": position.epoch + 1, **({"last": last} if last else {})}
        removed = self._runs - _numbers(manifest)
        _remove(batch, removed)
        batch.delete_range(_EPOCH, _EPOCH + (position.epoch + 1).to_bytes(8, "big"))
        self._commit(batch, manifest)
        self._runs -= removed

    def keep_only(self, runs: Sequence[StoredRun]) -> None:
        """Write changed states of uncommitted runs, and remove other such runs, unsynced, for this process only."""
        batch = rocksdict.WriteBatch(raw_mode=True)
        for run in runs:
            _put_states(batch, run)
        removed = self._runs - _numbers(self._manifest) - {run.index.number for run in runs}
        _remove(batch, removed)
        with self.errors.writing():
            self._database.write(batch)
        self._runs -= removed
        for run in runs:
            run.saved()

    def _commit(self, batch: Any, manifest: dict[str, Any]) -> None:
        batch.put(_MANIFEST, json.dumps(manifest).encode())
        try:
            with self.errors.writing():
                self._database.write(batch, self._sync)
            self._manifest = manifest
        except BaseException:
            # The write may have succeeded before the interrupt.
            with self.errors.reading():
                content = self._database.get(_MANIFEST)
                self._manifest |= {} if content is None else json.loads(content)
            raise
        self._epoch_file.write(manifest["epoch"])

    @property
    def wants_checkpoint(self) -> bool:
        """Whether replaying the changes since the last checkpoint would take long."""
        return bool(self.logged_rows > max(self.policy.log_rows, self._manifest["rows"]))

    @property
    def logged_rows(self) -> int:
        """Number of changes since the last checkpoint."""
        return sum(self._manifest["log"].values())

    def close(self) -> None:
        """Close the database. All committed data is on disk, so an error of a background task is only logged."""
        self._epoch_file.write(self._manifest.get("epoch", 0), sync=True)
        self._epoch_file.close()
        try:
            self._database.close()
        except Exception as error:
            _log.warning("%s", self.errors.unusable(error))

    def _epoch_key(self, epoch: int, table: str, part: int) -> bytes:
        number = self._tables[table]
        return _EPOCH + epoch.to_bytes(8, "big") + number.to_bytes(2, "big") + part.to_bytes(4, "big")


def _stream_of(batch: pa.RecordBatch) -> bytes:
    return stream([batch])


def _numbers(manifest: Mapping[str, Any]) -> set[int]:
    last = manifest.get("last", {}).values()
    return {number for runs in (*manifest["runs"].values(), last) for number, _ in runs}


def _remove(batch: Any, numbers: set[int]) -> None:
    for number in numbers:
        batch.delete_range(run_key(number), run_key(number + 1))


def _put_states(batch: Any, run: StoredRun) -> None:
    if not run.changed:
        return
    for block, state in run.changed.items():
        batch.put(run_key(run.index.number, STATE, block), state)
    has_state = run.has_state.copy()
    has_state[list(run.changed)] = True
    batch.put(run_key(run.index.number, HAS_STATE), np.packbits(has_state).tobytes())
