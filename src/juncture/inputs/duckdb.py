"""Results as DuckDB relations."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from juncture.columnar.arrays import innermost, raw_values, validity
from juncture.errors import DataError, SchemaError


@dataclass(frozen=True)
class AsRelation:
    """Converts tables to relations on the connection of `beside`; without one (in another process), to Arrow."""

    beside: Any

    def __call__(self, joined: pa.Table) -> Any:
        """Return a table as a relation."""
        if self.beside is None or not joined.schema.names:
            return joined
        for name, column in zip(joined.column_names, joined.columns, strict=True):
            for chunk in column.chunks:
                for part in innermost(chunk):
                    _check_nanoseconds(part, name)
        try:
            # DuckDB finds the table by the name of this local variable.
            return self.beside.query("juncture_joined", "SELECT * FROM joined")
        except sys.modules["duckdb"].Error as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise SchemaError(
                f"The result cannot be read by DuckDB, the library of the left table: {reason}. Cast or drop that "
                "column, or pass the left table as Arrow, with .to_arrow_table().",
                name="JN-LIBRARY-TYPE",
            ) from error

    def __reduce__(self) -> tuple[type[AsRelation], tuple[None]]:
        return AsRelation, (None,)


def _check_nanoseconds(array: pa.Array, name: str) -> None:
    """Refuse durations finer than microseconds, the unit of DuckDB's intervals, which would truncate them."""
    data_type = array.type
    if pat.is_duration(data_type) and data_type.unit == "ns":
        nanoseconds = raw_values(array, np.int64)
    elif pat.is_interval(data_type):
        # Months and days are the first 64 bits.
        nanoseconds = raw_values(array, np.int64)[:, 1]
    else:
        return
    is_finer, valid = nanoseconds % 1_000 != 0, validity(array)
    if (is_finer if valid is None else is_finer & valid).any():
        raise DataError(
            f"The column {name!r} of type {data_type} has values finer than microseconds, the unit of intervals in "
            "DuckDB, the library of the left table. Round or drop it, or pass the left table as Arrow, with "
            ".to_arrow_table().",
            name="JN-LIBRARY-VALUE",
        )
