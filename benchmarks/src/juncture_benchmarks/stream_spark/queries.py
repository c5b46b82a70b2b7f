"""The same joins of two streams by Juncture, and as users write them without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from juncture_benchmarks.stream_spark.workload import SIDES, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CONTESTANTS", "SECTIONS", "Contestant", "spec_of"]

_OUTPUT = "ts timestamp, k string, left_id long, left_value double, right_id long, right_value double"
_BEHIND = 60
"""Seconds of the window: the span of a micro-batch, in which each key has some right rows."""


@dataclass(frozen=True)
class Contestant:
    """A join of two streams.

    Attributes
    ----------
    title
        As it is shown.
    section
        Which join it does.
    query
        Makes it of a workload.
    rows, keys
        Of the workload: rows of a micro-batch, of both sides together. Rows for each key are the same for all.
    batches
        Number of warm-up micro-batches, and of measured ones after them.
    held_batches
        Number of large micro-batches before, whose rows are kept.
    """

    title: str
    section: str
    query: Callable[[SparkSession, Workload], DataFrame]
    rows: int
    keys: int
    batches: tuple[int, int]
    held_batches: int = 0


def spec_of(section: str) -> Any:
    """Return what the contestants of a section join."""
    import juncture as jn

    if section == "asof":
        return jn.Asof(on="ts", by="k")
    return jn.Range(on="ts", by="k", lower="-1s", upper="1s", how="left")


def _streams(session: SparkSession, workload: Workload) -> list[DataFrame]:
    found = []
    for side in SIDES:
        folder = str(workload.folder / side)
        reader = session.readStream.schema(session.read.parquet(folder).schema)
        found.append(reader.option("maxFilesPerTrigger", 1).parquet(folder))
    return found


def _ours(section: str) -> Callable[[SparkSession, Workload], DataFrame]:
    def query(session: SparkSession, workload: Workload) -> DataFrame:
        """Return Juncture's join."""
        import juncture as jn

        order = jn.Order("ts", delay=workload.delay)
        left, right = _streams(session, workload)
        return jn.stream(left, right, spec_of(section), left_order=order, right_order=order)

    return query


def _by_key(session: SparkSession, workload: Workload) -> DataFrame:
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


def _in_window(session: SparkSession, workload: Workload) -> DataFrame:
    """Return a left join with all right rows of a window that keeps the last one per left row."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    band = f"k = rk AND rts >= ts - INTERVAL {_BEHIND} SECONDS AND rts <= ts"
    pairs = _with_watermarks(session, workload, band)
    # An aggregate takes one column with a watermark, and here it is the window's.
    times = [F.unix_micros(name).alias(f"{name}_us") for name in ("ts", "rts")]
    left = ["k", "left_id", "left_value"]
    seen = pairs.select(F.window("ts", "1 second"), *times, *left, F.struct("right_id", "right_value").alias("right"))
    best = seen.groupBy("window", "ts_us", *left).agg(F.max_by("right", "rts_us").alias("best"))
    return best.select(F.timestamp_micros("ts_us").alias("ts"), *left, "best.*")


def _by_hand(session: SparkSession, workload: Workload) -> DataFrame:
    """Return the range join as it is written for Spark."""
    band = "k = rk AND rts >= ts - INTERVAL 1 SECOND AND rts <= ts + INTERVAL 1 SECOND"
    pairs = _with_watermarks(session, workload, band)
    return pairs.select("ts", "k", "left_id", "left_value", "right_id", "right_value")


def _with_watermarks(session: SparkSession, workload: Workload, band: str) -> DataFrame:
    """Return Spark's own left join of both streams."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    delay = "1 second"
    left, right = _streams(session, workload)
    right = right.withColumnsRenamed({"ts": "rts", "k": "rk"})
    return left.withWatermark("ts", delay).join(right.withWatermark("rts", delay), F.expr(band), "left")


SECTIONS = {
    "asof": "As-of join, final, left",
    "range": "Range join of one second before and after, left, with a match per row",
    "dense": "The same with 25 matches per row",
    "held": "The same with a match per row, while rows of earlier micro-batches are kept",
}
"""Titles of sections."""

_HAND = "written by hand for Spark's operator"

CONTESTANTS = {
    "juncture": Contestant("Juncture", "asof", _ours("asof"), 500_000, 10_000, (20, 20)),
    "applyInPandasWithState": Contestant(
        "`applyInPandasWithState` for each key, not final", "asof", _by_key, 50_000, 1_000, (3, 3)
    ),
    "window": Contestant(
        "left join with a window of a minute, and the last row of each", "asof", _in_window, 50_000, 1_000, (6, 4)
    ),
    "range": Contestant("Juncture", "range", _ours("range"), 500_000, 500_000 // 60, (6, 6)),
    "range-by-hand": Contestant(_HAND, "range", _by_hand, 40_000, 40_000 // 60, (3, 4)),
    "dense": Contestant("Juncture", "dense", _ours("dense"), 500_000, 500_000 // 1_500, (4, 4)),
    "dense-by-hand": Contestant(_HAND, "dense", _by_hand, 10_000, 10_000 // 1_500, (2, 2)),
    "held-none": Contestant("Juncture", "held", _ours("held"), 40_000, 40_000 // 60, (6, 10)),
    "held-1M": Contestant("Juncture, 1M rows", "held", _ours("held"), 40_000, 40_000 // 60, (6, 10), held_batches=2),
    "held-5M": Contestant("Juncture, 5M rows", "held", _ours("held"), 40_000, 40_000 // 60, (6, 10), held_batches=10),
}
"""Queries by name. Matches per row are a sixtieth of the rows per key."""
