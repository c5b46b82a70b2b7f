"""Errors of a state folder: those that RocksDB raises as plain exceptions, with what to do about them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from juncture.errors import StateError

_CORRUPTION = "Corruption"  # the prefix of RocksDB's errors about damage
# Texts in RocksDB's errors about a folder that cannot be written now, but is not damaged.
_UNWRITABLE = tuple(
    map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EMFILE))
)


@dataclass(frozen=True)
class StoreErrors:
    """Errors of the state of a query of a ``kind`` in a folder."""

    kind: str
    folder: Path

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise a `StateError` for any error in reading."""
        try:
            yield
        except StateError:
            raise
        except Exception as error:
            raise self.unusable(error) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raise a `StateError` for any error in writing."""
        try:
            yield
        except Exception as error:
            # A background task has found damage, which RocksDB then reports for each write.
            is_damaged = str(error).startswith(_CORRUPTION)
            raise (self.damaged(error) if is_damaged else self.unwritten(error)) from error

    def unusable(self, problem: Exception) -> StateError:
        """Return the error for a folder that cannot be written, or is damaged."""
        is_unwritable = any(text in str(problem) for text in _UNWRITABLE)
        return self.unwritten(problem) if is_unwritable else self.damaged(problem)

    def unwritten(self, problem: object) -> StateError:
        """Return the error for a folder that cannot be written."""
        return StateError(
            f"The {self.kind} cannot be written to {self.folder}: {problem}. Check the permissions and the free disk "
            "space.",
            name="JN-STATE-WRITE",
        )

    def damaged(self, problem: object) -> StateError:
        """Return the error for a folder that is damaged."""
        return StateError(
            f"The {self.kind} in {self.folder} is damaged: {problem}. Nothing in it was changed. Restore the folder "
            "from a copy, or populate a new one.",
            name="JN-STATE-DAMAGED",
        )
