"""The decoded state of buckets as files on the worker's machine. A micro-batch reads only the parts that it needs.

A bucket that is read from the state store is decoded row by row. So a worker also writes its arrays to files, and the
next micro-batch maps them to memory. Files with arrays that never change are written once. Their number is small, since
segments are merged.

A random *token* ties the files to the state in the store: it is written with each state, names the files, and signs
their description, which has the size, inode and times of each. So a micro-batch that failed, was repeated, or ran
elsewhere reads the state store, and so does one whose files were removed or changed in any way.
"""

from __future__ import annotations

import hmac
import io
import mmap
import os
import pickle
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

_IN_STREAM_BYTES = 1 << 10
"""Smaller arrays are in the pickled stream itself."""
_ALIGNED_BYTES = 64
_FREE_SHARE = 4
"""Files are written only if the disk has this many times their size of free space."""
_UNUSED_S = 3_600
"""Files of a bucket without a micro-batch for this time are removed."""
_SIGNED_BYTES = 32
_FIXED, _CHANGING = ".fixed", ".changing"
"""Suffixes of files with arrays that never change, and of files that are written anew each time."""
_LOCK = type(Lock())


Region = tuple[str, int, int]
"""A file, and the first byte and the size of an array in it."""
Fingerprint = tuple[int, int, int, int]
"""Inode, size, and times of change of a file."""


def decoded_folder() -> Path | None:
    """Return the folder for decoded states: in the local folder of a Spark executor, which is removed with it."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return Path(local, "juncture-state") if local else None


class _Arena:
    """Arrays for one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._content: list[bytes | memoryview] = []
        self.nbytes = 0

    def add(self, array: memoryview) -> Region:
        """Add an array, and return its region."""
        region = self.file, self.nbytes, array.nbytes
        padding = bytes(-array.nbytes % _ALIGNED_BYTES)
        self._content += [array, padding]
        self.nbytes += array.nbytes + len(padding)
        return region

    def write(self, folder: Path) -> Fingerprint:
        """Write the file, and return its fingerprint."""
        return _create(folder / self.file, self._content)


class DecodedState:
    """The decoded state of one bucket before and after a micro-batch.

    ``shared`` objects are not part of it. ``place`` is what `save` returned last: a folder and a token, both random.
    """

    def __init__(self, parent: Path, shared: Sequence[object], place: Mapping[str, str] | None) -> None:
        self._parent = parent
        self._shared = shared
        self._place = place
        self._folder = parent / (token_hex(16) if place is None else place["folder"])
        # Mapped memory is released after the state is saved, so that an address belongs to one array.
        self._maps: dict[str, mmap.mmap] = {}
        self._fingerprints: dict[str, Fingerprint] = {}
        self._regions: dict[tuple[int, int], Region] = {}  # of mapped arrays that never change, by address and size

    def load(self) -> Any:
        """Return the state before, or None if its files are not as they were written."""
        if self._place is None:
            return None
        token = self._place["token"]
        try:
            content = (self._folder / _name(token)).read_bytes()
            signature, data = content[:_SIGNED_BYTES], content[_SIGNED_BYTES:]
            if not hmac.compare_digest(signature, _signed(token, data)):
                return None
            fingerprints, regions, stream = pickle.loads(data)
            maps = {file: _mapped(self._folder / file, each) for file, each in fingerprints.items()}
        except (OSError, ValueError):
            return None
        self._maps, self._fingerprints = maps, fingerprints
        arrays = []
        for region in regions:
            file, start, size = region
            array = memoryview(maps[file])[start : start + size]
            if array.readonly:
                self._regions[_address(array), size] = region
            arrays.append(array)
        return _Unpickler(stream, self._shared, arrays).load()

    def save(self, state: object) -> dict[str, str]:
        """Write the state after, remove other files, and return its place. Without room, remove all files."""
        token = token_hex(32)
        try:
            for folder in (self._parent, self._folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            files = self._write(token, state)
            for path in self._folder.iterdir():
                if path.name not in files:
                    path.unlink()
            self._remove_unused()
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
        return {"folder": self._folder.name, "token": token}

    def _write(self, token: str, state: object) -> set[str]:
        """Write a state, and return the names of its files."""
        name = _name(token)
        fixed, changing = _Arena(name + _FIXED), _Arena(name + _CHANGING)
        regions: list[Region] = []

        def out_of_stream(buffer: pickle.PickleBuffer) -> bool:
            array = buffer.raw()
            if array.nbytes < _IN_STREAM_BYTES:
                return True
            # Arrow never changes values, although its memory may be writable.
            is_fixed = array.readonly or isinstance(array.obj, pa.Buffer)
            known = self._regions.get((_address(array), array.nbytes)) if is_fixed else None
            regions.append(known or (fixed if is_fixed else changing).add(array))
            return False

        stream = io.BytesIO()
        _Pickler(stream, self._shared, out_of_stream).dump(state)
        if _FREE_SHARE * (fixed.nbytes + changing.nbytes) > shutil.disk_usage(self._folder).free:
            raise OSError("no room")
        new = {arena.file: arena.write(self._folder) for arena in (fixed, changing)}
        # Files that were there keep the fingerprints with which they were read.
        fingerprints = {file: new.get(file) or self._fingerprints[file] for file, _, _ in regions}
        data = pickle.dumps((fingerprints, regions, stream.getvalue()))
        _create(self._folder / name, [_signed(token, data), data])
        return {name, *fingerprints}

    def _remove_unused(self) -> None:
        """Remove the files of other buckets that are no longer used."""
        oldest = time.time() - _UNUSED_S
        for folder in self._parent.iterdir():
            with suppress(OSError):
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder)


class _Pickler(pickle.Pickler):
    """Writes arrays apart, and refers to shared objects by number."""

    def __init__(self, file: io.BytesIO, shared: Sequence[object], out_of_stream: Any) -> None:
        super().__init__(file, 5, buffer_callback=out_of_stream)
        self._shared = {id(each): number for number, each in enumerate(shared)}

    def persistent_id(self, value: object) -> int | None:
        """Return the number of a shared object."""
        return self._shared.get(id(value))

    def reducer_override(self, value: object) -> Any:
        """Write a lock as a new one."""
        return (Lock, ()) if isinstance(value, _LOCK) else NotImplemented


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote."""

    def __init__(self, stream: bytes, shared: Sequence[object], arrays: Sequence[memoryview]) -> None:
        super().__init__(io.BytesIO(stream), buffers=arrays)
        self._shared = shared

    def persistent_load(self, number: int) -> object:
        """Return a shared object."""
        return self._shared[number]


def _signed(token: str, data: bytes) -> bytes:
    return hmac.digest(token.encode(), data, "sha256")


def _name(token: str) -> str:
    """Return the first part of the names of files, which does not reveal the token."""
    return _signed(token, b"name").hex()


def _address(array: memoryview) -> int:
    return int(np.frombuffer(array, np.uint8).ctypes.data)


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _create(path: Path, content: Iterable[bytes | memoryview]) -> Fingerprint:
    """Create a file that only this user can read, and return its fingerprint."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.writelines(content)
    return _fingerprint(path.stat())


def _mapped(path: Path, expected: Fingerprint) -> mmap.mmap:
    """Map a file to memory, privately if its arrays may change; raise `ValueError` if it is not as expected."""
    with path.open("rb") as file:
        if _fingerprint(os.fstat(file.fileno())) != expected:
            raise ValueError(path)
        access = mmap.ACCESS_READ if path.suffix == _FIXED else mmap.ACCESS_COPY
        return mmap.mmap(file.fileno(), 0, access=access)
