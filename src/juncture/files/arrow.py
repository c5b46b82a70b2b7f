"""Arrow files and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from juncture.errors import DataError
from juncture.files.formats import ARROW_START


def arrow_schema(files: Sequence[Path]) -> pa.Schema:
    """Return the schema that Arrow files share."""
    first: pa.Schema | None = None
    for file in files:
        with _opened(file) as (schema, _):
            first = schema if first is None else first
            if not schema.equals(first):
                raise DataError(
                    f"{file} has the columns {schema}, but {files[0]} has {first}. Expected "
                    "the same columns in all files of a table. Write one of them again, or exclude it.",
                    name="JN-FILE-COLUMNS",
                )
    return first


def arrow_rows(files: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of Arrow files."""
    for file in files:
        with _opened(file) as (_, batches):
            yield from batches


@contextmanager
def _opened(file: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    try:
        with pa.memory_map(str(file)) as source:
            is_file = source.read(len(ARROW_START)) == ARROW_START
            source.seek(0)
            if is_file:
                reader = pa.ipc.open_file(source)
                yield reader.schema, map(reader.get_batch, range(reader.num_record_batches))
            else:
                stream = pa.ipc.open_stream(source)
                yield stream.schema, iter(stream)
    except pa.ArrowException as error:
        raise DataError(
            f"{file} cannot be read as Arrow: {error}. Write it again, or set its format with --format or format=.",
            name="JN-FILE-DAMAGED",
        ) from error
