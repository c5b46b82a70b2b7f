"""Evaluation of expressions by DuckDB, for functions that views do not compile."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

if TYPE_CHECKING:
    import duckdb

_SLOT = "slot"


@cache
def locked_database(zone: str) -> duckdb.DuckDBPyConnection:
    """Return an empty database without access to files and networks, whose configuration cannot be changed."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET TimeZone = '{}'".format(zone.replace("'", "''")))
    # Equal spellings of a setting exist, so both are set: a query must not load code or read files.
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


class _Slot:
    """A table of DuckDB whose rows are the current batch."""

    def __init__(self) -> None:
        self.batch: pa.RecordBatch | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.batch is not None
        reader = pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch])
        return reader.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class DuckQuery:
    """A query of DuckDB over batches: ``sql`` reads the table ``slot``, whose columns are ``c0``, ``c1`` and so on.

    If ``rises``, its value rises or stays as its only column rises. An ``inverse`` returns that column exactly.
    """

    sql: str
    inputs: tuple[pa.DataType, ...]
    outputs: tuple[pa.DataType, ...]
    zone: str = "UTC"
    rises: bool = False
    inverse: DuckQuery | None = None

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([(f"c{index}", data_type) for index, data_type in enumerate(self.inputs)])

    @cached_property
    def _prepared(self) -> tuple[Any, _Slot]:
        cursor = locked_database(self.zone).cursor()
        slot = _Slot()
        slot.batch = pa.RecordBatch.from_pylist([], self._schema)
        cursor.register(_SLOT, slot)
        cursor.execute(f"PREPARE statement AS {self.sql}")
        return cursor, slot

    def text(self, operands: Sequence[str]) -> str:
        """Return the value as text, with the names of the columns."""
        columns = r"CAST\(c(\d+) AS [^()]*(?:\([^()]*\))?\)|\bc(\d+)\b"
        text = re.sub(columns, lambda match: operands[int(match[1] or match[2])], self.sql)
        return _plain_text(text.removeprefix("SELECT ").removesuffix(" FROM slot"))

    def run(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return the result for some columns; raises `pyarrow.ArrowInvalid` if a value fails."""
        import duckdb

        try:
            cursor, slot = self._prepared
            slot.batch = pa.RecordBatch.from_arrays([_plain(each) for each in columns], schema=self._schema)
            with warnings.catch_warnings():
                # Relations have no such warning, but bind the query again.
                warnings.simplefilter("ignore", UserWarning)
                table = cursor.execute("EXECUTE statement").to_arrow_table()
            slot.batch = None
        except duckdb.Error as error:
            raise pa.ArrowInvalid(first_sentence(str(error))) from None
        arrays = [
            _as_type(table.column(index).combine_chunks(), data_type) for index, data_type in enumerate(self.outputs)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[str(index) for index in range(len(arrays))])


def _plain_text(text: str) -> str:
    """Return SQL without quotes around functions, and without a cast of the whole value."""
    text = re.sub(r'"(\w+)"\(', r"\1(", text)
    inner = text.removeprefix("CAST(").removesuffix(")")
    depths = np.cumsum([(each == "(") - (each == ")") for each in inner])
    is_cast = len(inner) + 6 == len(text) and depths.min(initial=0) == 0
    return inner.rpartition(" AS ")[0] if is_cast else text


def _plain(array: pa.Array) -> pa.Array:
    """Return floats without negative zeros, because rows that differ only in the sign of a zero are equal."""
    if not pat.is_floating(array.type):
        return array
    return pc.add(array, pa.scalar(0.0, array.type))


def _as_type(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks else pa.nulls(0, array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array if array.type == data_type else array.cast(data_type)


def first_sentence(message: str) -> str:
    """Return DuckDB's message without the kind of error, the SQL and hints."""
    text = message.partition("\n")[0]
    kind, _, rest = text.partition(" Error: ")
    return (rest if rest and len(kind.split()) <= 3 else text).rstrip(" .!")


def evaluated(query: DuckQuery, columns: Sequence[pa.Array | pa.Scalar], rows: int) -> pa.Array:
    """Return the value of a query with one output for each row."""
    if not rows:
        return pa.nulls(0, query.outputs[0])
    arrays = [pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each for each in columns]
    arrays = arrays or [pa.array(np.zeros(rows, np.int8))]
    return query.run(arrays).column(0)
