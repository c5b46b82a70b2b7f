"""The command: runs queries in turn, keeps the figures, and makes the page of them."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from juncture_benchmarks.machine import describe_machine, describe_versions, load_average
from juncture_benchmarks.session import bench_session
from juncture_benchmarks.stream_spark.measure import measured
from juncture_benchmarks.stream_spark.page import write_stream_spark_page
from juncture_benchmarks.stream_spark.queries import CONTESTANTS

__all__ = ["main"]

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": _ROCKS,
    # Settings that docs/operations/streams.md recommends, for every contestant.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_FILES,
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


def main(description: str | None, folder: Path) -> None:
    """Measure, and write the figures to ``results`` in a folder, beside those of other contestants that are there."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", action="append", choices=list(CONTESTANTS), help="measure this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=1, help="times round; of several, the first is not measured")
    parser.add_argument("--render", action="store_true", help="make the page of the results, and measure nothing")
    chosen = parser.parse_args()
    results = folder / "results" / "stream-spark.json"
    if not chosen.render:
        _measure(results, chosen.only or list(CONTESTANTS), chosen.rounds)
    write_stream_spark_page(folder.parent / "docs" / "how-it-works" / "benchmarks" / "stream-spark.md", results)


def _measure(results: Path, names: list[str], rounds: int) -> None:
    kept = json.loads(results.read_text()) if results.exists() else {}
    circumstances = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "versions": describe_versions(("juncture", "pyspark", "pyarrow", "numba")),
        "load_average": load_average(),
    }
    session = bench_session(SETTINGS)
    # Contestants with the same files alternate.
    for files in dict.fromkeys(_files(name) for name in names):
        alike = [name for name in names if _files(name) == files]
        for name, figures in measured(session, alike, rounds).items():
            kept[name] = figures | circumstances
            print(json.dumps(kept[name], indent=1))
    session.stop()
    results.write_text(json.dumps({name: kept[name] for name in CONTESTANTS if name in kept}, indent=1) + "\n")


def _files(name: str) -> tuple[object, ...]:
    each = CONTESTANTS[name]
    return each.section, each.rows, each.keys, each.batches, each.held_batches
