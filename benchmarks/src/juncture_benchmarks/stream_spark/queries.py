"""The same join of two streams by Juncture, and as a user writes it: a Python function for each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from juncture_benchmarks.stream_spark.workload import DELAY, SIDES, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["QUERIES", "by_key", "ours"]

_OUTPUT = "ts timestamp, k string, left_id long, left_value double, right_id long, right_value double"


def _streams(session: SparkSession, workload: Workload) -> list[DataFrame]:
    found = []
    for side in SIDES:
        folder = str(workload.folder / side)
        reader = session.readStream.schema(session.read.parquet(folder).schema)
        found.append(reader.option("maxFilesPerTrigger", 1).parquet(folder))
    return found


def ours(session: SparkSession, workload: Workload) -> DataFrame:
    """Return Juncture's join."""
    import juncture as jn

    order = jn.Order("ts", delay=DELAY)
    left, right = _streams(session, workload)
    joined: DataFrame = jn.join_asof(left, right, on="ts", by="k", left_order=order, right_order=order)
    return joined


def by_key(session: SparkSession, workload: Workload) -> DataFrame:
    """Return a join with ``applyInPandasWithState``, which keeps the last right row of each key.

    It takes the rows of a micro-batch in their order, and gives every left row at once, although right rows that come
    later may be the ones that it should have had: it does less than the join that is final.
    """
    left, right = _streams(session, workload)
    rows = left.unionByName(right, allowMissingColumns=True)
    state = "right_id long, right_value double"
    return rows.groupBy("k").applyInPandasWithState(_joined, _OUTPUT, state, "append", "NoTimeout")


def _joined(_key: Any, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    rows = pd.concat(list(frames)).sort_values("ts", kind="stable")
    names = ["right_id", "right_value"]
    if state.exists:
        rows = pd.concat([pd.DataFrame([state.get], columns=names), rows])
    rows[names] = rows[names].ffill()
    last = rows[names].iloc[-1]
    if pd.notna(last["right_id"]):
        state.update((int(last["right_id"]), float(last["right_value"])))
    yield rows[rows["left_id"].notna()]


QUERIES = {"juncture": ours, "applyInPandasWithState": by_key}
"""What is measured, by name."""
