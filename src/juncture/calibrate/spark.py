"""Constants of joins on Spark: what single steps take for a generated table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.session import resources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["measure_spark"]

_TRIES = 3
_BIN_ROWS = 100


def measure_spark(
    session: SparkSession, told: Callable[[str], object] = str, *, rows: int = 2_000_000
) -> dict[str, float]:
    """Return constants of `juncture.planner.constants.Constants`, by their names.

    Parameters
    ----------
    session
        Where to measure. Its workers have to see the temporary folder of this process, as those on one machine do.
    told
        Called with what is measured next.
    rows
        Of the table.

    Notes
    -----
    Takes about a minute for two million rows on two cores. Each time is the shortest of three. Steps that only
    Juncture's own kernels take inside of a task are not measured.
    """
    cores = resources(session).cores

    def core_ns(seconds: float, count: float) -> float:
        return seconds * cores * 1e9 / count

    with TemporaryDirectory(prefix="juncture-") as folder:
        path = str(Path(folder, "rows"))
        told("reading and shuffling")
        _table(session, rows).repartition(cores).write.parquet(path)
        table = session.read.parquet(path)
        empty_s = _shortest_s(session.range(0))
        scan_s = _shortest_s(table)
        stage_s = _shortest_s(session.range(cores).repartition(cores, "id")) - empty_s
        shuffled = table.repartition(cores, "key")
        shuffle_s = _shortest_s(shuffled)
        sort_s = _shortest_s(shuffled.sortWithinPartitions("key", "at"))
        told("Python")
        one_row = session.range(1)
        python_s = _seconds(one_row.mapInArrow(_count, "rows bigint")) - empty_s
        to_python_s = _shortest_s(table.mapInArrow(_count, "rows bigint"))
        both_ways_s = _shortest_s(table.mapInArrow(_same, table.schema))
        collect_s = min(_collect_s(table.limit(rows // 10)) for _ in range(_TRIES))
        told("comparing")
        compared = _comparing(session, rows)
        direct_s = min(_direct_s(path) for _ in range(_TRIES))
    measured = {
        "scan_ns": core_ns(scan_s - empty_s, rows),
        "direct_scan_ns": direct_s * 1e9 / rows,
        "to_python_ns": core_ns(to_python_s - scan_s, rows),
        "from_python_ns": core_ns(both_ways_s - to_python_s, rows),
        "shuffle_ns": core_ns(shuffle_s - scan_s - stage_s, rows),
        "sort_ns": core_ns(sort_s - shuffle_s, rows),
        "collect_ns": (collect_s - empty_s) * 1e9 / (rows // 10),
        "stage_s": stage_s,
        "python_s": python_s,
        **{name: core_ns(seconds, count) for name, (seconds, count) in compared.items()},
    }
    # The clock may say that a step took no time.
    return {name: max(value, 0.01 if name.endswith("_s") else 0.1) for name, value in measured.items()}


def _table(session: SparkSession, rows: int) -> DataFrame:
    keys = F.concat(F.lit("key "), (F.col("id") * 7_919 % 10_007).cast("string"))
    return session.range(rows).select(
        (F.col("id") * 104_729 % rows).alias("at"), keys.alias("key"), F.rand(1).alias("x")
    )


def _comparing(session: SparkSession, rows: int) -> dict[str, tuple[float, float]]:
    """Return seconds and pairs of joins that Spark runs itself, without and with rows that match."""
    side = 2 * int(rows**0.5)
    few = session.range(side)
    other = few.select(F.col("id").alias("there"))
    loop_s = _shortest_s(few.join(other, F.expr("id * there < 0")))
    many = session.range(rows // 10).select((F.col("id") / _BIN_ROWS).cast("bigint").alias("bin"), "id")
    there = many.select(F.col("bin").alias("its_bin"), F.col("id").alias("there"))
    equal = F.col("bin") == F.col("its_bin")
    bins_s = _shortest_s(many.hint("merge").join(there, equal & F.expr("id + there < 0")))
    made_s = _shortest_s(many.hint("merge").join(there, equal & F.expr("id + there >= 0")))
    start_s = _shortest_s(many.hint("merge").join(there, equal & (F.col("id") == F.col("there"))))
    pairs = float(rows // 10) * _BIN_ROWS
    return {
        "loop_ns": (loop_s, float(side) ** 2),
        "bin_pair_ns": (bins_s - start_s, pairs),
        "made_ns": (made_s - bins_s, pairs),
    }


def _shortest_s(frame: DataFrame) -> float:
    return min(_seconds(frame) for _ in range(_TRIES))


def _seconds(frame: DataFrame) -> float:
    """Return how long it takes to compute all rows, of which none is kept."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _collect_s(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.toArrow()
    return time.perf_counter() - began


def _direct_s(path: str) -> float:
    """Return how long one core takes to read all rows through Arrow."""
    began = time.perf_counter()
    for file in sorted(Path(path).glob("*.parquet")):
        pq.read_table(file, use_threads=False)
    return time.perf_counter() - began


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take all rows to Python, and none back."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"rows": pa.array([rows], pa.int64())})


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take all rows to Python and back."""
    yield from batches
