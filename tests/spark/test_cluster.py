"""Joins on a standalone cluster: the loss of a worker in mid-join."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import juncture as jn
from support.cluster import SHORT_LIVED, Worker, standalone_cluster, wait_for
from support.processes import no_session

SCRIPT = Path(__file__).parents[1] / "support" / "cluster_join.py"


def write_side(path: Path, rows: int, keys: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    table = pa.table(
        {
            "ts": generator.integers(0, 10 * rows, rows),
            "key": generator.integers(0, keys, rows),
            "value": generator.random(rows),
        }
    )
    path.mkdir()
    for part in range(4):
        pq.write_table(table.slice(part * rows // 4, rows // 4), path / f"{part}.parquet")


def start_join(url: str, folder: Path, **options: Any) -> subprocess.Popen[bytes]:
    paths = [str(folder / name) for name in ("left", "right", "joined")]
    return subprocess.Popen([sys.executable, str(SCRIPT), url, *paths, json.dumps(options)])


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def kill_in_mid_join(victim: Worker, running: subprocess.Popen[bytes], before: Path) -> None:
    """Kill a worker as soon as it has written shuffle data, once the join before has left its mark."""
    wait_for(lambda: before.exists() or running.poll() is not None, "the join before")
    earlier = victim.shuffles()
    wait_for(lambda: bool(victim.shuffles() - earlier) or running.poll() is not None, "shuffle data of this join")
    assert running.poll() is None
    victim.kill()
    assert victim.process.wait() != 0


JOINS = {
    "range": jn.Asof(on="ts", by="key", how="left"),
    "sort_merge": jn.Equi(on=["ts", "key"], how="full", where="l.value > r.value / 2"),
}
"""What is joined, by the algorithm to take. The second is all Spark's own."""


@pytest.mark.early
@pytest.mark.nightly
def test_a_worker_that_dies_in_mid_join_costs_time_only(tmp_path: Path) -> None:
    for name, rows, seed in (("left", 400_000, 1), ("right", 800_000, 2)):
        write_side(tmp_path / name, rows, keys=3, seed=seed)
    joins = [{"spec": spec.to_dict(), "algorithm": algorithm} for algorithm, spec in JOINS.items()]
    with no_session(), standalone_cluster(tmp_path / "cluster", workers=len(JOINS) + 1, memory="700m") as cluster:
        settings = {
            "spark.executor.memory": "600m",
            "spark.cores.max": str(len(JOINS) + 1),
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.sql.shuffle.partitions": "6",
        }
        running = start_join(cluster.url, tmp_path, joins=joins, settings=settings)
        try:
            done = tmp_path
            # The last worker is left to finish.
            for victim, spec in zip(cluster.workers, JOINS.values(), strict=False):
                kill_in_mid_join(victim, running, done)
                done = tmp_path / "joined" / spec.kind / "_SUCCESS"
            assert running.wait(timeout=300) == 0
        finally:
            running.kill()
            running.wait()
    for spec in JOINS.values():
        joined = pq.read_table(tmp_path / "joined" / spec.kind)
        expected = jn.plan(str(tmp_path / "left"), str(tmp_path / "right"), spec).execute()
        assert pc.count(joined["value_right"]).as_py() > 0
        assert in_order(joined).equals(in_order(expected))
