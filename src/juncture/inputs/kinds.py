"""Kinds of input tables, and the engine that they need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

from juncture.errors import PlanError, SpecError
from juncture.inputs.files import Files, is_from, is_lake, is_path
from juncture.planner.decision import Engine

Kind = Literal["arrow", "path", "spark"]

ACCEPTED = (
    "Expected a Spark DataFrame, a path (file, folder, glob or list of them), or a table: pyarrow (also a dataset), "
    "Polars, pandas, DuckDB, deltalake, pyiceberg, or an iterable of pyarrow.RecordBatch."
)

_ONE_COLUMN = {
    ("pandas", "Series"): ".to_frame()",
    ("polars", "Series"): ".to_frame()",
    ("pyarrow", "Array"): "pyarrow.table({name: …})",
    ("pyarrow", "ChunkedArray"): "pyarrow.table({name: …})",
}
"""Classes of single columns, and the call that converts them to a table."""

_TABLES = (("polars", "LazyFrame"), ("pyarrow.dataset", "Dataset"), ("pyarrow.dataset", "Scanner"))
"""Classes of tables without Arrow's stream interface and without iteration."""


def kind_of(table: object, side: str) -> Kind:
    """Return the kind of an input, or raise if it is not a table."""
    # The other checks take a noticeable part of the time of a small join.
    if isinstance(table, pa.Table):
        return "arrow"
    if isinstance(table, Files) or is_lake(table):
        return "path"
    if is_path(table):
        _check_paths(table if isinstance(table, list | tuple) else [table], side)
        return "path"
    if is_spark_frame(table):
        return "spark"
    for (package, name), conversion in _ONE_COLUMN.items():
        if is_from(table, package, name):
            raise SpecError(
                f"The {side} table is a {type_name(table)}, which is a single column. Expected a table. Convert it "
                f"with {conversion}.",
                name="JN-INPUT-KIND",
            )
    if (
        isinstance(table, Iterable)
        or hasattr(table, "__arrow_c_stream__")
        or any(is_from(table, *of) for of in _TABLES)
    ):
        return "arrow"
    raise SpecError(f"The {side} table is a {type_name(table)}, which is not a table. {ACCEPTED}", name="JN-INPUT-KIND")


def _check_paths(paths: Sequence[Any], side: str) -> None:
    """Refuse an empty path, which would be the working directory."""
    for path in paths:
        if not os.fspath(path).strip():
            raise SpecError(
                f"The {side} table has the empty path {os.fspath(path)!r}. Expected a file, a folder ('.' for the "
                "working directory), a glob or a URI.",
                name="JN-ARGUMENT-VALUE",
            )


def is_spark_frame(table: object) -> bool:
    """Return whether this is a Spark DataFrame, classic or Connect, without importing Spark."""
    # Before Spark 4.0, those of Spark Connect are of another class.
    modules = (sys.modules.get(name) for name in ("pyspark.sql", "pyspark.sql.connect.dataframe"))
    return any(module is not None and isinstance(table, module.DataFrame) for module in modules)


def is_stream(table: object) -> bool:
    """Return whether this is a streaming DataFrame, classic or Connect."""
    return is_spark_frame(table) and bool(getattr(table, "isStreaming", False))


def choose_engine(left: object, right: object, spark: object | None) -> Engine:
    """Return the engine for two inputs. Paths run on either engine; with a Spark session, on Spark."""
    kinds = kind_of(left, "left"), kind_of(right, "right")
    if spark is None and "spark" not in kinds:
        return "local"
    if "arrow" in kinds:
        side, table = ("left", left) if kinds[0] == "arrow" else ("right", right)
        frame = "right" if side == "left" else "left"
        other = f"the {frame} table is a Spark DataFrame" if "spark" in kinds else "spark= is set"
        raise PlanError(
            f"The {side} table is a {type_name(table)} in this process, but {other}. Expected both inputs on one "
            "engine. Convert it with spark.createDataFrame(…), or convert the Spark DataFrame with .toArrow().",
            name="JN-INPUT-ENGINES",
        )
    return "spark"


def type_name(table: object) -> str:
    """Return the type of a table for messages."""
    kind = type(table)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
