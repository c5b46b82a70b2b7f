"""Tables of other libraries, of the rows of an Arrow table.

Each is made by a function of its own, which imports what it needs, so that its text can stand in a script.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from juncture.inputs.tables import read_table

__all__ = ["FRAMES", "framed", "seen"]


def as_pandas(table: pa.Table, folder: Path) -> Any:
    return table.to_pandas()


def as_pandas_nullable(table: pa.Table, folder: Path) -> Any:
    import pandas as pd

    types = {pa.string(): pd.StringDtype(), pa.bool_(): pd.BooleanDtype()}
    for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64"):
        types[pa.from_numpy_dtype(name.lower())] = pd.api.types.pandas_dtype(name)
    return table.to_pandas(types_mapper=types.get)


def as_pandas_arrow(table: pa.Table, folder: Path) -> Any:
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def as_polars(table: pa.Table, folder: Path) -> Any:
    import polars as pl

    return pl.from_arrow(table)


def as_polars_lazy(table: pa.Table, folder: Path) -> Any:
    import polars as pl

    return pl.from_arrow(table).lazy()


def as_duckdb(table: pa.Table, folder: Path) -> Any:
    import duckdb

    return duckdb.from_arrow(table)


FRAMES: dict[str, Callable[[pa.Table, Path], Any]] = {
    form.__name__: form
    for form in (as_pandas, as_pandas_nullable, as_pandas_arrow, as_polars, as_polars_lazy, as_duckdb)
}
"""What makes a table of a library, which may have other types. They take a folder, as what writes files does."""


def framed(library: str, table: pa.Table, folder: Path) -> tuple[Any, pa.Table] | None:
    """Return a table of a library, and what a join sees of it; None where the library has not its types.

    Parameters
    ----------
    library
        A name of `FRAMES`.
    table, folder
        What it takes.
    """
    if not table.num_columns or not all(is_safe(data_type, library) for data_type in table.schema.types):
        return None
    try:
        frame = FRAMES[library](table, folder)
        return frame, seen(frame)
    except Exception:
        # Each library has errors of its own.
        return None


def seen(frame: Any) -> pa.Table:
    """Return a table of another library as a join sees it."""
    given = read_table(frame, "left")
    return given.table.select(given.schema.names)


def is_safe(data_type: pa.DataType, form: str) -> bool:
    """Tell whether a library, asked to hold a type, does or says that it cannot, rather than to end the process."""
    if "pandas" in form:
        return "run_end_encoded" not in str(data_type) and "view" not in str(data_type)
    if "polars" not in form:
        return True
    if pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_fixed_size_list(data_type):
        return is_safe(data_type.value_type, form)
    if pat.is_struct(data_type):
        return all(is_safe(data_type.field(i).type, form) for i in range(data_type.num_fields))
    if pat.is_dictionary(data_type):
        return data_type == pa.dictionary(pa.uint32(), pa.string())
    if pat.is_decimal(data_type):
        return pat.is_decimal128(data_type) and data_type.scale >= 0
    if pat.is_timestamp(data_type):
        return data_type.unit != "s" and data_type.tz != "+05:30"
    if pat.is_duration(data_type):
        return data_type.unit != "s"
    of_polars = (
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.time64("ns"),
        pa.date32(),
        pa.bool_(),
    )
    return data_type in (*of_polars, pa.float32(), pa.float64(), pa.null()) or pat.is_integer(data_type)
