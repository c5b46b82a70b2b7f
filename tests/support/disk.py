"""A disk that runs full."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["FullDisk", "filling_disk"]


@contextmanager
def filling_disk() -> Iterator[Callable[[int], None]]:
    """Yield a function that has the system refuse this process's writes beyond some bytes of any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size_bytes: resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class FullDisk:
    """A file on a disk without room for more than some bytes."""

    def __init__(self, path: str, mode: str, room: int = 600) -> None:
        self._file = Path(path).open(mode)  # noqa: SIM115 - closed by whoever opened this
        self._room = room
        self.closed = False

    def write(self, content: bytes) -> int:
        if self._file.tell() + len(content) > self._room:
            raise OSError(28, "No space left on device")
        return self._file.write(content)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self.closed = True
