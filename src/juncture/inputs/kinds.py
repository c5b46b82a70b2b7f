"""What a user may pass as a table, and which engine that asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from juncture.errors import PlanError, SpecError
from juncture.inputs.files import Files, is_path
from juncture.planner.decision import Engine

Kind = Literal["arrow", "path", "spark"]

ACCEPTED = (
    "Expected a Spark DataFrame; a path to files (a file, folder, glob or list of them); or a table that speaks "
    "Arrow: pyarrow (a dataset too), Polars, pandas, DuckDB, or an iterable of pyarrow.RecordBatch."
)

_ONE_COLUMN = {
    ("pandas", "Series"): ".to_frame()",
    ("polars", "Series"): ".to_frame()",
    ("pyarrow", "Array"): "pyarrow.table({name: …})",
    ("pyarrow", "ChunkedArray"): "pyarrow.table({name: …})",
}
"""What is one column without being a table, and what makes a table of it."""

_TABLES = (("polars", "LazyFrame"), ("pyarrow.dataset", "Dataset"), ("pyarrow.dataset", "Scanner"))
"""Tables that neither speak Arrow's interface nor can be iterated."""


def kind_of(table: object, side: str) -> Kind:
    """Tell what kind of input this is.

    Raises
    ------
    SpecError
        If it is none that a join can read.
    """
    if isinstance(table, Files):
        return "path"
    if is_path(table):
        _check_paths(table if isinstance(table, list | tuple) else [table], side)
        return "path"
    if is_spark_frame(table):
        return "spark"
    for (package, name), mend in _ONE_COLUMN.items():
        if is_from(table, package, name):
            raise SpecError(
                f"The {side} table is a {type_name(table)}, which is one column and not a table. Make a table of it "
                f"with {mend}."
            )
    if (
        isinstance(table, Iterable)
        or hasattr(table, "__arrow_c_stream__")
        or any(is_from(table, *of) for of in _TABLES)
    ):
        return "arrow"
    raise SpecError(f"The {side} table is a {type_name(table)}, which cannot be read as a table. {ACCEPTED}")


def _check_paths(paths: Sequence[Any], side: str) -> None:
    """Refuse a path without a name, which would be the working directory.

    Raises
    ------
    SpecError
        If there is one.
    """
    for path in paths:
        if not os.fspath(path).strip():
            raise SpecError(
                f"A path of the {side} table is {os.fspath(path)!r}, which names nothing. Expected a Parquet file, a "
                "folder ('.' for the working directory), a glob or a URI."
            )


def is_spark_frame(table: object) -> bool:
    """Tell a Spark DataFrame, classic or Connect, without importing Spark."""
    module = sys.modules.get("pyspark.sql")
    return module is not None and isinstance(table, module.DataFrame)


def is_stream(table: object) -> bool:
    """Tell a streaming DataFrame, classic or Connect, whose rows have no end."""
    return is_spark_frame(table) and bool(getattr(table, "isStreaming", False))


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
        If one input lives in Spark and the other in this process.
    """
    kinds = {"left": kind_of(left, "left"), "right": kind_of(right, "right")}
    in_spark = [side for side, kind in kinds.items() if kind == "spark"]
    in_process = [side for side, kind in kinds.items() if kind == "arrow"]
    if in_process and (in_spark or spark is not None):
        other = f"the {in_spark[0]} one is a Spark DataFrame" if in_spark else "spark= is given"
        table = left if in_process[0] == "left" else right
        raise PlanError(
            f"The {in_process[0]} table is a {type_name(table)} in this process, while {other}. A join runs in one "
            "place: turn it into a Spark DataFrame with spark.createDataFrame(…), or bring the other here with "
            ".toArrow()."
        )
    return "spark" if in_spark or spark is not None else "local"


def is_from(table: object, package: str, name: str) -> bool:
    """Tell whether a table is of a class of a package, without importing the package."""
    module = sys.modules.get(package)
    return module is not None and isinstance(table, getattr(module, name))


def type_name(table: object) -> str:
    """Return what an error calls the type of a table."""
    kind = type(table)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
