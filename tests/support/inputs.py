"""The forms in which a table may be passed to an in-process join."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as pat

from support.arrays import build

__all__ = ["FORMS", "pass_as", "random_chunks"]

FORMS = ("table", "chunks", "reader", "batches", "dataset", "file", "folder", "glob", "paths")


def random_chunks(table: pa.Table, chance: random.Random) -> list[pa.RecordBatch]:
    """Cut a table into batches of any sizes, empty ones among them, each with dictionaries of its own."""
    cuts = sorted(chance.choices(range(table.num_rows + 1), k=chance.randint(0, 6)))
    edges = [0, *cuts, table.num_rows]
    batches = []
    for start, end in pairwise(edges):
        # Arrow cannot combine all chunks into one.
        part = table.slice(start, end - start).to_batches()
        empty = [build([], data_type) for data_type in table.schema.types]
        batches += part or [pa.RecordBatch.from_arrays(empty, schema=table.schema)]
    return [
        pa.RecordBatch.from_arrays([coded_anew(column, chance) for column in batch.columns], schema=batch.schema)
        for batch in batches
    ]


def coded_anew(column: pa.Array, chance: random.Random) -> pa.Array:
    """Return a column of text, now and then, with only its own values in its dictionary, if it has one."""
    if not (pat.is_dictionary(column.type) and pat.is_string(column.type.value_type)) or chance.random() < 0.5:
        return column
    return column.dictionary_decode().dictionary_encode().cast(column.type)


def strict(batch: pa.RecordBatch, chance: random.Random) -> pa.RecordBatch:
    """Return rows of which some columns are declared not to be null, of those that are not."""
    fields = [
        field.with_nullable(chance.random() < 0.5 or column.null_count > 0 or pa.types.is_null(field.type))
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def pass_as(form: str, table: pa.Table, folder: Path, chance: random.Random, rows: int = 4) -> Any:
    """Return a table in one of the forms; as a table where the form cannot hold its types.

    Row groups of files have up to ``rows`` rows.
    """
    if form == "table" or (form in ("file", "folder", "glob", "paths") and not fits_parquet(table)):
        return table
    batches = random_chunks(table, chance)
    if form == "chunks":
        return pa.Table.from_batches(batches, table.schema)
    if form == "dataset":
        return ds.dataset(pa.Table.from_batches(batches, table.schema))
    if form == "reader":
        return pa.RecordBatchReader.from_batches(table.schema, batches)
    if form == "batches":
        return iter(batches)
    folder.mkdir()
    if form == "file":
        path = folder / "table.parquet"
        pq.write_table(table, path, row_group_size=chance.randint(1, rows))
        return path if chance.random() < 0.5 else str(path)
    paths = []
    for number, batch in enumerate(batches):
        paths.append(folder / f"part-{number}.parquet")
        pq.write_table(
            pa.Table.from_batches([strict(batch, chance)]), paths[-1], row_group_size=chance.randint(1, rows)
        )
    return {"folder": folder, "glob": str(folder / "*.parquet"), "paths": paths}[form]


def fits_parquet(table: pa.Table) -> bool:
    """Tell whether a table comes back from Parquet as it is."""
    return all(type_fits_parquet(field.type) for field in table.schema)


def type_fits_parquet(data_type: pa.DataType) -> bool:
    if pat.is_timestamp(data_type):
        return data_type.unit != "s"
    if pat.is_decimal(data_type) and data_type.scale < 0:
        return False
    if pat.is_dictionary(data_type):
        return data_type == pa.dictionary(pa.int32(), pa.string())
    if pat.is_nested(data_type) and not pat.is_fixed_size_list(data_type):
        return all(type_fits_parquet(data_type.field(i).type) for i in range(data_type.num_fields))
    # Arrow cannot read a null list of fixed size back.
    unfit = (
        pat.is_interval,
        pat.is_fixed_size_list,
        pat.is_run_end_encoded,
        pat.is_time32,
        pat.is_date64,
        pat.is_string_view,
        pat.is_decimal32,
        pat.is_decimal64,
    )
    return not any(test(data_type) for test in unfit)
