"""Checks of the inputs of `stream` and `changes`: two schemas, or two DataFrames, at least one of them streaming."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from juncture.errors import PlanError, SpecError
from juncture.inputs import choose_engine, is_spark_frame, is_stream
from juncture.joins.planning import check_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from juncture.inputs.files import Files

SparkTable: TypeAlias = "DataFrame | Files | str | PathLike[str] | Sequence[str | PathLike[str]]"
"""A DataFrame, or paths to Parquet files."""


def are_schemas(left: object, right: object) -> bool:
    """Return whether the inputs are two schemas, or False if one is a DataFrame. Anything else raises an error."""
    if is_spark_frame(left) or is_spark_frame(right):
        return False
    for side, value in (("left", left), ("right", right)):
        if not isinstance(value, pa.Schema):
            raise SpecError(
                f"{side}={value!r} ({type(value).__name__}) is neither a schema nor a streaming DataFrame. Expected a "
                "pyarrow.Schema, such as table.schema, or a DataFrame of spark.readStream.",
                name="JN-ARGUMENT-TYPE",
            )
    return True


def check_streams(left: object, right: object, spec: object) -> None:
    """Refuse a join on Spark without a streaming DataFrame."""
    check_spec(spec)
    choose_engine(left, right, None)
    if not (is_stream(left) or is_stream(right)):
        raise PlanError(
            "Neither input is a streaming DataFrame. Read one of them with spark.readStream, or join two tables with "
            "jn.plan(left, right, spec).",
            name="JN-BATCH-INPUTS",
        )


def refuse_on_spark(**arguments: object) -> None:
    """Refuse arguments that apply to two schemas only. None stands for the default of an argument."""
    for name, value in arguments.items():
        if value is not None:
            raise PlanError(
                f"{name}={value!r} applies to joins of two schemas, which run in this process. Remove it.",
                name="JN-ARGUMENT-INAPPLICABLE",
            )
