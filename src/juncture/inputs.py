"""What a user may pass as a table, and which engine that asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Literal

import pyarrow as pa

from juncture.errors import PlanError, SpecError
from juncture.planner.question import Engine

__all__ = ["Kind", "as_arrow", "choose_engine", "give_back", "kind_of"]

Kind = Literal["arrow", "path", "spark"]

_ACCEPTED = (
    "Expected a Spark DataFrame; a path to Parquet (a file, folder, glob or list of them); or a table that speaks "
    "Arrow: pyarrow, Polars, pandas, DuckDB, or an iterable of pyarrow.RecordBatch."
)


def kind_of(table: object, side: str) -> Kind:
    """Tell what kind of input this is.

    Raises
    ------
    SpecError
        If it is none that a join can read.
    """
    if isinstance(table, str | os.PathLike):
        return "path"
    if isinstance(table, list | tuple) and table and all(isinstance(part, str | os.PathLike) for part in table):
        return "path"
    if is_spark_frame(table):
        return "spark"
    if isinstance(table, Iterable) or hasattr(table, "__arrow_c_stream__") or _is_lazy_polars(table):
        return "arrow"
    raise SpecError(f"The {side} table is a {_type_name(table)}, which cannot be read as a table. {_ACCEPTED}")


def is_spark_frame(table: object) -> bool:
    """Tell a Spark DataFrame, classic or Connect, without importing Spark."""
    module = sys.modules.get("pyspark.sql")
    return module is not None and isinstance(table, module.DataFrame)


def choose_engine(left: object, right: object, spark: object | None) -> Engine:
    """Return the engine that the inputs ask for.

    Parameters
    ----------
    left, right
        The inputs. Paths go with either engine.
    spark
        A Spark session, which asks for Spark where the inputs are paths.

    Raises
    ------
    PlanError
        If one input lives in Spark and the other in this process, or a Spark DataFrame is a stream.
    """
    kinds = {"left": kind_of(left, "left"), "right": kind_of(right, "right")}
    in_spark = [side for side, kind in kinds.items() if kind == "spark"]
    in_process = [side for side, kind in kinds.items() if kind == "arrow"]
    if in_process and (in_spark or spark is not None):
        other = f"the {in_spark[0]} one is a Spark DataFrame" if in_spark else "spark= is given"
        table = left if in_process[0] == "left" else right
        raise PlanError(
            f"The {in_process[0]} table is a {_type_name(table)} in this process, while {other}. A join runs in one "
            "place: turn it into a Spark DataFrame with spark.createDataFrame(…), or bring the other here with "
            ".toArrow()."
        )
    for side, table in (("left", left), ("right", right)):
        if kinds[side] == "spark" and getattr(table, "isStreaming", False):
            raise PlanError(
                f"The {side} table is a streaming DataFrame, and this is a batch join. Join inside foreachBatch, or "
                "read the same source as a batch."
            )
    return "spark" if in_spark or spark is not None else "local"


def as_arrow(table: Any, side: str) -> pa.Table | pa.RecordBatchReader:
    """Return an in-process input as an Arrow table, or as a reader where it is a stream.

    Raises
    ------
    SpecError
        If an iterable yields something else than record batches.
    """
    if isinstance(table, pa.Table | pa.RecordBatchReader):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if _is_from(table, "pandas", "DataFrame"):
        return pa.Table.from_pandas(table, preserve_index=False)
    if _is_lazy_polars(table):
        table = table.collect()
    if _is_from(table, "polars", "DataFrame"):
        return table.to_arrow()
    if _is_from(table, "duckdb", "DuckDBPyRelation"):
        # As a stream it would keep its connection busy, which may be the other table's too.
        return table.to_arrow_table()
    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    if hasattr(table, "scanner"):
        return table.scanner().to_reader()
    return _reader(iter(table), side)


def _reader(batches: Iterable[Any], side: str) -> pa.RecordBatchReader:
    """Return a reader over record batches, whose schema is the first one's."""
    iterator = iter(batches)
    first = next(iterator, None)
    if not isinstance(first, pa.RecordBatch):
        got = "nothing, so that its columns are unknown" if first is None else f"a {_type_name(first)}"
        raise SpecError(f"The {side} table is an iterable whose first item is {got}. {_ACCEPTED}")

    def rest() -> Iterable[pa.RecordBatch]:
        yield first
        yield from iterator

    return pa.RecordBatchReader.from_batches(first.schema, rest())


def give_back(left: object) -> Callable[[pa.Table], Any]:
    """Return a function that turns an Arrow table into the type of the left input, and can be pickled.

    pandas and Polars users get their own type, all others a ``pyarrow.Table``.
    """
    if _is_from(left, "pandas", "DataFrame"):
        return _to_pandas
    if _is_from(left, "polars", "DataFrame") or _is_lazy_polars(left):
        return _to_polars
    return _as_it_is


def _to_pandas(table: pa.Table) -> Any:
    return table.to_pandas()


def _to_polars(table: pa.Table) -> Any:
    # Where a plan that was pickled is executed, nobody may have imported it yet.
    return import_module("polars").from_arrow(table)


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


def _is_lazy_polars(table: object) -> bool:
    return _is_from(table, "polars", "LazyFrame")


def _is_from(table: object, package: str, name: str) -> bool:
    """Tell whether a table is of a class of a package, without importing the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(table, getattr(module, name))


def _type_name(table: object) -> str:
    kind = type(table)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def paths_of(table: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return a path or several as a list of strings."""
    parts = [table] if isinstance(table, str | os.PathLike) else table
    return [os.fspath(part) for part in parts]
