"""Runs queries over files, checks the answer, and reads off what they took."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juncture_benchmarks.process import tree_bytes, tree_cpu_s
from juncture_benchmarks.stream_spark.queries import CONTESTANTS, SECTIONS, Contestant, spec_of
from juncture_benchmarks.stream_spark.workload import LAST_KEY, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["measured"]


def measured(session: SparkSession, names: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
    """Return the figures of some contestants of one section, run in turn over the same files, and back again.

    Parameters
    ----------
    session
        The session.
    names
        Which ones.
    rounds
        Number of rounds. With several, the first one is not measured.
    """
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as work:
        one = CONTESTANTS[names[0]]
        workload = Workload(Path(work), sum(one.batches), one.rows, one.keys, one.held_batches)
        workload.write()
        answer = workload.answer(spec_of(one.section))
        for number in range(rounds):
            for name in names if number % 2 else reversed(names):
                found = _run(session, CONTESTANTS[name], workload, f"{name}-{number}")
                found["is_the_batch_answer"] = found.pop("answer") == answer
                figures[name].append(found)
    return {name: _median(found[min(1, rounds - 1) :]) | _told(CONTESTANTS[name]) for name, found in figures.items()}


def _told(contestant: Contestant) -> dict[str, Any]:
    facts = {"rows": contestant.rows, "keys": contestant.keys, "batches": list(contestant.batches)}
    return {"title": contestant.title, "section": contestant.section, "joins": SECTIONS[contestant.section], **facts}


def _median(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the round of median speed, and how right all were."""
    ordered = sorted(rounds, key=lambda each: float(each["rows_per_second"]))
    found = ordered[(len(ordered) - 1) // 2]
    found["is_the_batch_answer"] = all(each["is_the_batch_answer"] for each in rounds)
    return found


def _run(session: SparkSession, contestant: Contestant, workload: Workload, name: str) -> dict[str, Any]:
    """Run one query to the end of its files."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    rows = contestant.query(session, workload)
    # Spark would move a filter of the last rows below the watermarks, which then would not see them.
    is_counted = F.col("k") != LAST_KEY
    seen = rows.observe("answer", F.count_if(is_counted).alias("rows"), F.sum("right_id").alias("ids"))
    progress, samples = _watched(seen, workload.folder / f"checkpoint-{name}")
    warm = contestant.held_batches + contestant.batches[0]
    timed = [each for each in progress if each["numInputRows"]][warm:-1]
    times = [each["durationMs"]["triggerExecution"] / 1000 for each in timed]
    before = next((sample for sample in samples if sample.batch >= timed[0]["batchId"] - 1), samples[0])
    after = next((sample for sample in samples if sample.batch >= timed[-1]["batchId"]), samples[-1])
    rows_between = sum(each["numInputRows"] for each in progress if before.batch < each["batchId"] <= after.batch)
    return {
        "rows_per_second": round(sum(each["numInputRows"] for each in timed) / sum(times)),
        "rows_per_cpu_second": round(rows_between / max(after.cpu_s - before.cpu_s, 0.01)),
        "batch_seconds": [round(statistics.median(times), 3), round(min(times), 3), round(max(times), 3)],
        "state_bytes": [_state(timed[0]), _state(timed[-1])],
        "memory_mb": [round(sample.memory_bytes / 1e6) for sample in (before, after)],
        "durations_ms": {name: _typical(timed, name) for name in timed[-1]["durationMs"]},
        "answer": tuple(
            sum(each["observedMetrics"]["answer"][key] or 0 for each in progress if "answer" in each["observedMetrics"])
            for key in ("rows", "ids")
        ),
    }


def _typical(progress: Sequence[Any], name: str) -> float:
    return float(statistics.median(each["durationMs"].get(name, 0) for each in progress))


@dataclass(frozen=True)
class _Sample:
    """Resources of all processes at the end of a micro-batch."""

    batch: int
    memory_bytes: int
    cpu_s: float


def _watched(frame: DataFrame, checkpoint: Path) -> tuple[list[Any], list[_Sample]]:
    """Return the progress of each micro-batch, and samples of what was used meanwhile."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    samples: list[_Sample] = []
    shown = -1
    while query.isActive:
        time.sleep(0.1)
        last = query.lastProgress
        if last is not None and last["batchId"] > shown and last["numInputRows"]:
            shown = last["batchId"]
            print(f"micro-batch {shown}: {last['numInputRows']:,} rows in {last['durationMs']}", flush=True)
            samples.append(_Sample(shown, tree_bytes(os.getpid()), tree_cpu_s(os.getpid())))
    query.awaitTermination()
    return list(query.recentProgress), samples


def _state(progress: Any) -> int:
    """Return the bytes of state after a micro-batch: of rows if reported, else of Spark's stores."""
    told = [metrics.asDict().get("state_bytes") for metrics in progress["observedMetrics"].values()]
    held = [each for each in told if each is not None]
    return int(sum(held)) if held else sum(int(each["memoryUsedBytes"]) for each in progress["stateOperators"])
