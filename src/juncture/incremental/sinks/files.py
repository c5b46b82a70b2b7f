"""A folder of Parquet files with the changes of a result, one file for each epoch.

A file is written under a name that readers skip, synced, and then renamed to the number of its epoch. So it is complete
or absent, and the names show which epochs were committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from juncture.errors import SchemaError, StateError
from juncture.incremental.sinks.sink import Sink
from juncture.runtime.paths import sync_path

_STATE = b"juncture.state"
_DIGITS = 12


class FilesSink(Sink):
    """A folder of Parquet files with changes, created by `juncture.into_files`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._schema = pa.schema([])
        self._epoch = 0

    def open(self, schema: pa.Schema, state: str) -> int | None:
        """Return the last epoch that has a file."""
        self._schema = schema.with_metadata({_STATE: state.encode()})
        self._folder.mkdir(parents=True, exist_ok=True)
        for left in self._folder.glob("_*.parquet"):
            left.unlink()
        paths = sorted(self._folder.glob("*.parquet"))
        self._epoch = self._last(paths)
        if paths:
            self._check(paths[-1], schema, state)
        return self._epoch

    def _last(self, paths: Sequence[Path]) -> int:
        """Return the number of the last file. The first files may have been removed, but none in between."""
        epochs = []
        for path in paths:
            if not path.stem.isdecimal():
                raise StateError(
                    f"File {path} is not the file of an epoch. Pass a folder without other files.",
                    name="JN-SINK-FOREIGN",
                )
            epochs.append(int(path.stem))
        for before, epoch in pairwise(epochs):
            if epoch != before + 1:
                raise StateError(
                    f"Folder {self._folder} has no file of epoch {before + 1:,}, but one of epoch {epoch:,}. Restore "
                    "the file, or start again with another output folder and a new state folder.",
                    name="JN-SINK-INCOMPLETE",
                )
        return epochs[-1] if epochs else 0

    def _check(self, path: Path, schema: pa.Schema, state: str) -> None:
        try:
            file_schema = pq.read_schema(path)
        except (OSError, pa.ArrowException) as error:
            raise StateError(
                f"File {path} cannot be read: {error}. Remove it, and its epoch is written again.",
                name="JN-SINK-INCOMPLETE",
            ) from error
        if (file_schema.metadata or {}).get(_STATE) != state.encode():
            raise StateError(
                f"The files in {self._folder} belong to another state. Pass another folder, or the state that wrote "
                "them.",
                name="JN-SINK-FOREIGN",
            )
        if not file_schema.equals(schema):
            raise SchemaError(
                f"The files in {self._folder} have other columns than the result. Pass another folder.",
                name="JN-SINK-SCHEMA",
            )

    def write(self, epoch: int, changes: Sequence[pa.RecordBatch]) -> None:
        """Write the file of an epoch, even without rows."""
        if epoch != self._epoch + 1:
            raise StateError(
                f"Folder {self._folder} is at epoch {self._epoch:,}, so epoch {epoch:,} cannot be written next. "
                "Follow again to write the missing epochs.",
                name="JN-SINK-EPOCH",
            )
        path = self._folder / f"{epoch:0{_DIGITS}}.parquet"
        written = path.with_name(f"_{path.name}")
        try:
            pq.write_table(pa.Table.from_batches(list(changes), self._schema), written)
            sync_path(written)
            written.rename(path)
            sync_path(self._folder)
        except (OSError, pa.ArrowException) as error:
            raise StateError(
                f"Epoch {epoch:,} cannot be written to {path}: {error}. Check the permissions and the free disk space.",
                name="JN-SINK-WRITE",
            ) from error
        self._epoch = epoch
