"""The format of changes in streaming DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.incremental.change_batch import CHANGE_TYPE, WEIGHT, ChangeFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def formatted(frame: DataFrame, form: ChangeFormat) -> DataFrame:
    """Return changes, whose last column is a weight, in another format.

    In formats with one row per change, each row is repeated by its weight.
    """
    if form == "weight":
        return frame
    *names, _ = frame.columns
    safe = [f"c{place}" for place in range(len(names))]
    frame = frame.toDF(*safe, WEIGHT)
    comes = F.col(WEIGHT) > 0
    times = F.explode(F.array_repeat(comes, F.abs(WEIGHT).cast("int")))
    frame = frame.select(*safe, times.alias("comes"))
    if form == "change_type":
        kind = F.when(F.col("comes"), "insert").otherwise("delete")
        return frame.select(*safe, kind.alias(CHANGE_TYPE)).toDF(*names, CHANGE_TYPE)
    row = F.struct(*(F.col(one).alias(name) for one, name in zip(safe, names, strict=True)))
    return frame.select(
        F.when(F.col("comes"), "c").otherwise("d").alias("op"),
        F.when(~F.col("comes"), row).alias("before"),
        F.when(F.col("comes"), row).alias("after"),
    )
