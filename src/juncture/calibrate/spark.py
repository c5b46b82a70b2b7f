"""Cost constants of joins on Spark, from single steps on a generated table and from the start of small joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.joins.planning import plan
from juncture.planner.statistics import SideStats, Stats
from juncture.spark.frames import to_arrow
from juncture.spark.session.session import BATCH_BYTES, BATCH_BYTES_UNLIMITED, resources, setting
from juncture.spec.equi import Equi
from juncture.spec.kinds import Spec
from juncture.spec.range import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BIN_ROWS = 100
_BATCH_BYTES = "256m"  # a limit that no batch reaches, to measure the cost of enforcing it
_FEW = 100  # a row count whose join takes only its start-up time


def measure_spark(
    session: SparkSession, report: Callable[[str], object] = str, *, rows: int = 2_000_000, rounds: int = 4
) -> dict[str, float]:
    """Return constants of `juncture.planner.constants.Constants`, by name.

    Takes about a minute for two million rows on two cores. A step costs the difference between queries with and without
    it; each time is the shortest of `rounds`, as the JVM compiles in the first. Joins of a few rows measure the start
    of a stage and of Python. The workers must see this process's temporary folder. The session's limit of batch bytes
    is changed meanwhile. Steps inside of tasks that only run Juncture's kernels are not measured.
    """
    cores = resources(session).cores
    shortest: dict[str, float] = {}
    with TemporaryDirectory(prefix="juncture-") as folder:
        path = str(Path(folder, "rows"))
        _table(session, rows).repartition(cores).write.parquet(path)
        steps = _steps(session, path, rows, cores) | _joins(session)
        for number in range(rounds):
            report(f"round {number + 1} of {rounds}")
            for name, seconds in steps.items():
                shortest[name] = min(shortest.get(name, inf), seconds())
    return _constants(shortest, rows, cores)


def _table(session: SparkSession, rows: int) -> DataFrame:
    keys = F.concat(F.lit("key "), (F.col("id") * 7_919 % 10_007).cast("string"))
    at = F.col("id") * 104_729 % rows
    return session.range(rows).select(at.alias("at"), keys.alias("key"), F.rand(1).alias("x"))


def _steps(session: SparkSession, path: str, rows: int, cores: int) -> dict[str, Callable[[], float]]:
    """Return a function that measures each step, in seconds."""
    table = session.read.parquet(path)
    shuffled = table.repartition(cores, "key")
    frames = {
        "nothing": session.range(1),
        "stage": session.range(1).repartition(cores, "id"),
        "scan": table,
        "shuffle": shuffled,
        "sort": shuffled.sortWithinPartitions("key", "at"),
        "loop": _loop(session, _loop_rows(rows)),
        "no loop": _loop(session, 1),
        "bins": _bins(session, rows, _BIN_ROWS, matching=False),
        "no bins": _bins(session, rows, 1, matching=False),
        "made": _bins(session, rows, _BIN_ROWS, matching=True),
    }
    steps: dict[str, Callable[[], float]] = {name: partial(_seconds, frame) for name, frame in frames.items()}
    counted = table.mapInArrow(_count, "rows bigint")
    steps["to Python"] = partial(_handed_s, counted, BATCH_BYTES_UNLIMITED)
    steps["to Python, by size"] = partial(_handed_s, counted, _BATCH_BYTES)
    steps["and back"] = partial(_handed_s, table.mapInArrow(_same, table.schema), BATCH_BYTES_UNLIMITED)
    steps["collect"] = partial(_collect_s, table)
    steps["direct scan"] = partial(_direct_s, path)
    return steps


def _joins(session: SparkSession) -> dict[str, Callable[[], float]]:
    """Return functions that measure joins with their start-up cost, in seconds."""
    few = session.createDataFrame(pa.table({"id": range(_FEW)}))
    # Without these row counts, planning would run a job.
    stats = SideStats(rows=_FEW, row_bytes=8)
    return {
        "two stages": partial(_join_s, few, Equi(on="id"), "sort_merge", Stats(left=stats, right=stats)),
        "two stages, one with Python": partial(_join_s, few, Range(on="id", lower=0, upper=0), "broadcast", None),
    }


def _constants(shortest: dict[str, float], rows: int, cores: int) -> dict[str, float]:
    """Return the constants from the times of queries with and without each step."""

    def between(with_it: str, without: str) -> float:
        return shortest[with_it] - shortest[without]

    def core_ns(seconds: float, count: float) -> float:
        return seconds * cores * 1e9 / count

    pairs = float(rows // 10) * _BIN_ROWS
    stage_s = shortest["two stages"] / 2
    measured = {
        "scan_ns": core_ns(between("scan", "nothing"), rows),
        "direct_scan_ns": shortest["direct scan"] * 1e9 / rows,
        "to_python_ns": core_ns(between("to Python", "scan"), rows),
        "row_size_ns": core_ns(between("to Python, by size", "to Python"), rows),
        "from_python_ns": core_ns(between("and back", "to Python"), rows),
        "shuffle_ns": core_ns(between("shuffle", "scan") - between("stage", "nothing"), rows),
        "sort_ns": core_ns(between("sort", "shuffle"), rows),
        "collect_ns": between("collect", "scan") * 1e9 / rows,
        "stage_s": stage_s,
        "python_s": between("two stages, one with Python", "two stages"),
        "jvm_loop_pair_ns": core_ns(between("loop", "no loop"), float(_loop_rows(rows)) ** 2),
        "bin_pair_ns": core_ns(between("bins", "no bins"), pairs),
        "output_row_ns": core_ns(between("made", "bins"), pairs),
    }
    # Differences below the noise fall back to the built-in constants.
    return {name: value for name, value in measured.items() if value > 0}


def _loop_rows(rows: int) -> int:
    """Return the rows of each side whose pairs are a hundred times the table's rows."""
    return int((100 * rows) ** 0.5)


def _loop(session: SparkSession, rows: int) -> DataFrame:
    """Compare all pairs, without a match."""
    there = session.range(rows).select(F.col("id").alias("there"))
    return session.range(rows).join(there, F.expr("id * there < 0"))


def _bins(session: SparkSession, rows: int, bin_rows: int, *, matching: bool) -> DataFrame:
    """Compare the pairs of bins, which either all match or never."""
    here = session.range(rows // 10).select((F.col("id") / bin_rows).cast("bigint").alias("bin"), "id")
    there = here.select(F.col("bin").alias("its_bin"), F.col("id").alias("there"))
    verdict = F.expr("id + there >= 0" if matching else "id + there < 0")
    return here.hint("merge").join(there, (F.col("bin") == F.col("its_bin")) & verdict)


def _seconds(frame: DataFrame) -> float:
    """Return the seconds to compute and discard all rows."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _handed_s(frame: DataFrame, batch_bytes: str) -> float:
    """Return the seconds of a query under a limit of the bytes of batches for Python."""
    with _set(frame.sparkSession, BATCH_BYTES, batch_bytes):
        return _seconds(frame)


@contextmanager
def _set(session: SparkSession, name: str, value: str) -> Iterator[None]:
    before = setting(session, name)
    session.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, before)


def _join_s(few: DataFrame, spec: Spec, algorithm: str, stats: Stats | None) -> float:
    """Return the seconds of a self-join of some rows, from planning to its last row."""
    began = time.perf_counter()
    frame = plan(few, few, spec, algorithm=algorithm, stats=stats).execute()
    return time.perf_counter() - began + _seconds(frame)


def _collect_s(frame: DataFrame) -> float:
    began = time.perf_counter()
    to_arrow(frame)
    return time.perf_counter() - began


def _direct_s(path: str) -> float:
    """Return the seconds in which one core reads all rows with Arrow."""
    began = time.perf_counter()
    for file in sorted(Path(path).glob("*.parquet")):
        pq.read_table(file, use_threads=False)
    return time.perf_counter() - began


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Transfer all rows to Python, and none back."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"rows": pa.array([rows], pa.int64())})


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Transfer all rows to Python and back."""
    yield from batches
