"""The map side of a shuffle: cut a task's rows into packets, one for each partition that they go to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.kernels.array_types import Ints
from juncture.spark.tasks.packets import Content, Packet
from juncture.spark.tasks.placement import one_chunk

__all__ = ["apart", "compact", "encode_keys", "encoded"]


def encoded(schema: pa.Schema, by: Iterable[str]) -> pa.Schema:
    """Return a schema as `encode_keys` makes it."""
    for name in by:
        field = schema.field(name)
        if _is_text(field.type):
            number = schema.get_field_index(name)
            schema = schema.set(number, field.with_type(pa.dictionary(pa.int32(), field.type)))
    return schema


def encode_keys(table: pa.Table, by: Iterable[str]) -> pa.Table:
    """Turn text and binary keys into dictionaries, so that later steps handle each distinct key once."""
    for name in by:
        if _is_text(table.schema.field(name).type):
            number = table.schema.get_field_index(name)
            table = table.set_column(number, name, one_chunk(table[name]).dictionary_encode())
    return table


def _is_text(data_type: pa.DataType) -> bool:
    """Tell types whose values are better compared once than row by row."""
    narrow = pat.is_string(data_type) or pat.is_binary(data_type)
    return bool(narrow or pat.is_large_string(data_type) or pat.is_large_binary(data_type))


def apart(table: pa.Table, targets: Ints, partitions: int, content: Content) -> Iterator[Packet]:
    """Yield the rows of each partition as a packet."""
    counts = np.bincount(targets, minlength=partitions)
    if np.count_nonzero(counts) > 1:
        # NumPy sorts integers of 16 bits by radix, ten times faster than wider ones.
        small = targets.astype(np.uint16) if partitions <= 1 << 16 else targets
        table = table.take(np.argsort(small, kind="stable"))
    ends = np.cumsum(counts)
    for target in np.flatnonzero(counts).tolist():
        rows = table.slice(ends[target] - counts[target], counts[target])
        yield Packet(target, content, compact(rows))


def compact(table: pa.Table) -> pa.Table:
    """Leave in each dictionary only the values that occur, since a packet takes its dictionaries along."""
    for number, field in enumerate(table.schema):
        if pat.is_dictionary(field.type):
            table = table.set_column(number, field.name, _compact(one_chunk(table.column(number))))
    return table


def _compact(column: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = column.indices.fill_null(0).to_numpy() if column.null_count else column.indices.to_numpy()
    size = len(column.dictionary)
    if size == 0:
        return column
    if size <= len(indices):
        occurs = np.zeros(size, np.bool_)
        occurs[indices] = True
        kept = np.flatnonzero(occurs)
        indices = (np.cumsum(occurs, dtype=np.int32) - 1)[indices].astype(np.int32)
    else:
        kept, indices = np.unique(indices, return_inverse=True)
    mask = np.asarray(column.is_null()) if column.null_count else None
    indices = pa.array(indices.astype(np.int32), pa.int32(), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(kept)))
