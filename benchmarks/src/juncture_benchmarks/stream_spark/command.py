"""The command: runs each query over the same files, checks the answer, and writes the figures."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juncture_benchmarks.machine import describe_machine, describe_versions, load_average
from juncture_benchmarks.process import tree_bytes, tree_cpu_s
from juncture_benchmarks.session import bench_session
from juncture_benchmarks.stream_spark.queries import QUERIES
from juncture_benchmarks.stream_spark.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["main"]

_WARM = 4
"""Micro-batches that are left out of the figures: Java and Numba compile meanwhile."""

_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def main(description: str | None, folder: Path) -> None:
    """Measure, and write the figures to ``results`` in a folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batches", type=int, default=20, help="micro-batches, besides those to warm up")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of both sides in each")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--peer-batches", type=int, default=2, help="micro-batches of the peer, which is slow")
    parser.add_argument("--only", action="append", choices=list(QUERIES), help="measure this one; may be given again")
    chosen = parser.parse_args()
    session = bench_session(_SETTINGS)
    figures = []
    for name in chosen.only or QUERIES:
        batches = chosen.batches if name == "juncture" else chosen.peer_batches
        with tempfile.TemporaryDirectory() as work:
            workload = Workload(Path(work), batches + _WARM, chosen.rows, chosen.keys)
            workload.write()
            figures.append(_measured(session, name, workload))
            print(json.dumps(figures[-1], indent=1))
    result = {
        "machine": describe_machine(),
        "versions": describe_versions(("juncture", "pyspark", "pyarrow", "numba")),
        "load_average": load_average(),
        "rows": chosen.rows,
        "keys": chosen.keys,
        "figures": figures,
    }
    (folder / "results" / "stream-spark.json").write_text(json.dumps(result, indent=1) + "\n")
    session.stop()


def _measured(session: SparkSession, name: str, workload: Workload) -> dict[str, Any]:
    """Run one query to the end of its files."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    rows = QUERIES[name](session, workload).where("k IS NOT NULL")
    seen = rows.observe("answer", F.count(F.lit(1)).alias("rows"), F.sum("right_id").alias("ids"))
    progress, samples = _run(seen, workload.folder / "checkpoint")
    answer = tuple(sum(each["observedMetrics"]["answer"][key] or 0 for each in progress) for key in ("rows", "ids"))
    is_right = answer == workload.answer()
    if name == "juncture" and not is_right:
        raise SystemExit(f"{name} answers {answer}, and the join of two tables {workload.answer()}")
    timed = progress[_WARM:-1]
    times = [each["durationMs"]["triggerExecution"] / 1000 for each in timed]
    states = [_state(each) for each in timed]
    warm = next((sample for sample in samples if sample.batch >= timed[0]["batchId"] - 1), samples[0])
    rows_after = sum(each["numInputRows"] for each in progress if each["batchId"] > warm.batch)
    return {
        "name": name,
        "batches": len(timed),
        "rows_per_second": round(sum(each["numInputRows"] for each in timed) / sum(times)),
        "rows_per_cpu_second": round(rows_after / (samples[-1].cpu_s - warm.cpu_s)),
        "batch_seconds_median": round(statistics.median(times), 3),
        "batch_seconds_most": round(max(times), 3),
        "state_bytes": [states[0], states[-1]],
        "memory_mb": [round(sample.memory_bytes / 1e6) for sample in (warm, samples[-1])],
        "is_the_batch_answer": is_right,
        "durations_ms_last": timed[-1]["durationMs"],
    }


@dataclass(frozen=True)
class _Sample:
    """What all processes had used when a micro-batch was the last to end."""

    batch: int
    memory_bytes: int
    cpu_s: float


def _run(frame: DataFrame, checkpoint: Path) -> tuple[list[Any], list[_Sample]]:
    """Return the progress of each micro-batch, and samples of what was used meanwhile."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    samples: list[_Sample] = []
    shown = -1
    while query.isActive or not samples:
        time.sleep(0.2)
        shown = _show(query, shown)
        samples.append(_Sample(shown, tree_bytes(os.getpid()), tree_cpu_s(os.getpid())))
    query.awaitTermination()
    return [each for each in query.recentProgress if each["numInputRows"]], samples


def _show(query: Any, shown: int) -> int:
    """Print micro-batches that have ended since one was shown, and return the last one's number."""
    for each in query.recentProgress:
        if each["batchId"] > shown and each["numInputRows"]:
            shown = each["batchId"]
            print(f"micro-batch {shown}: {each['numInputRows']:,} rows in {each['durationMs']}", flush=True)
    return shown


def _state(progress: Any) -> int:
    """Return how many bytes of state a micro-batch left."""
    told = [metrics.asDict().get("state_bytes") for metrics in progress["observedMetrics"].values()]
    held = [each for each in told if each is not None]
    return int(sum(held)) if held else int(progress["stateOperators"][0]["memoryUsedBytes"])
