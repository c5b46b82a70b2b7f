"""The ways in which a table may be passed to a join.

Each is a function of its own, which imports what it needs, so that its text can stand in a script.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from fuzz.compare import rows_of
from support.frames import FRAMES, framed

__all__ = ["FILES", "FORMS", "passed", "read_back"]


def as_table(table: pa.Table, folder: Path) -> Any:
    return table


def as_batch(table: pa.Table, folder: Path) -> Any:
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns],
        schema=table.schema,
    )


def as_reader(table: pa.Table, folder: Path) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def as_batches(table: pa.Table, folder: Path) -> Any:
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, each) for each in table.schema.types], schema=table.schema)
    return iter(table.to_batches() or [nothing])


def as_stream(table: pa.Table, folder: Path) -> Any:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.to_reader().__arrow_c_stream__(requested_schema)

    return Stream()


def as_dataset(table: pa.Table, folder: Path) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(table)


def as_file(table: pa.Table, folder: Path) -> Any:
    import pyarrow.parquet as pq

    folder.mkdir()
    pq.write_table(table, folder / "table.parquet")
    return folder / "table.parquet"


def as_row_groups(table: pa.Table, folder: Path) -> Any:
    import pyarrow.parquet as pq

    folder.mkdir()
    pq.write_table(table, folder / "table.parquet", row_group_size=3)
    return str(folder / "table.parquet")


def as_paths(table: pa.Table, folder: Path) -> Any:
    import pyarrow.parquet as pq

    folder.mkdir()
    parts = table.to_batches() or [table.schema.empty_table()]
    for number, part in enumerate(parts):
        pq.write_table(pa.table(part.columns, schema=table.schema), folder / f"{number:03}.parquet", row_group_size=2)
    return [folder / f"{number:03}.parquet" for number in range(len(parts))]


def as_files_of_other_nullability(table: pa.Table, folder: Path) -> Any:
    import pyarrow.parquet as pq

    folder.mkdir()
    parts = table.to_batches() or [table.schema.empty_table()]
    for number, part in enumerate(parts):
        # What has no null in every other file is said to have none.
        fields = [
            field.with_nullable(number % 2 == 0 or column.null_count > 0 or pa.types.is_null(field.type))
            for field, column in zip(part.schema, part.columns, strict=True)
        ]
        one = pa.Table.from_arrays(part.columns, schema=pa.schema(fields))
        pq.write_table(one, folder / f"{number:03}.parquet")
    return folder


Form = Callable[[pa.Table, Path], Any]

FILES: dict[str, Form] = {
    form.__name__: form for form in (as_file, as_row_groups, as_paths, as_files_of_other_nullability)
}
"""Parquet."""

FORMS: dict[str, Form] = {
    **{form.__name__: form for form in (as_table, as_batch, as_reader, as_batches, as_stream, as_dataset)},
    **FRAMES,
    **FILES,
}


def passed(form: str, table: pa.Table, folder: Path) -> tuple[str, Any, pa.Table]:
    """Return a table in a form, after the name of that form, and before the table that a join has to see in it.

    What a form cannot hold is passed as it is.
    """
    if not table.num_columns:
        # Of a batch without columns, Arrow forgets how many rows it has.
        return "as_table", table, table
    if form in FRAMES:
        frame = framed(form, table, folder)
        return ("as_table", table, table) if frame is None else (form, *frame)
    try:
        given = FORMS[form](table, folder)
        arrow = read_back(given) if form in FILES else pa.Table.from_batches([given]) if form == "as_batch" else table
    except (pa.ArrowException, OSError):
        return "as_table", table, table
    if arrow.schema.types != table.schema.types or rows_of(arrow) != rows_of(table):
        # Arrow writes it otherwise than it reads it, or puts its chunks together wrongly.
        return "as_table", table, table
    return form, given, arrow


def read_back(given: Any) -> pa.Table:
    """Return what Arrow reads from files that were written one after the other."""
    import pyarrow.parquet as pq

    files = given if isinstance(given, list) else [given]
    if len(files) == 1 and Path(files[0]).is_dir():
        files = sorted(Path(files[0]).iterdir())
    parts = [pq.ParquetFile(file).read() for file in files]
    # They differ in what may be null alone, and Arrow's cast breaks list views.
    return pa.concat_tables([pa.table(part.columns, schema=parts[0].schema) for part in parts])
