"""Streams on Spark that are killed and started again: ``faulty_stream.py CASE FOLDER`` is the process that is killed.

It runs a join over files that are there already, one of each side in a micro-batch, and goes on from its checkpoint.
Spark's driver, its JVM and its workers are in the session of that process, and nothing else is.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import juncture as jn
from support.cluster import wait_for
from support.processes import no_session
from support.session import TESTS, session_for_tests
from support.streaming import PARTITIONS, ROCKS, STORE, read_stream, run, write_files

__all__ = ["CASES", "Case", "run_with_kills", "write_input"]

ANSWER = "whole.parquet"
LOG = "log"


@dataclass(frozen=True)
class Case:
    """A join whose query is killed; of streams of rows, or of changes.

    With ``rows`` in a micro-batch and a ``delay`` so large that all are kept, workers keep the state decoded. Then only
    workers are killed, and Spark repeats their tasks.
    """

    spec: Any
    changes: bool = False
    rows: int = 60
    delay: int = 5
    kills_workers: bool = False


CASES = {
    "predicate": Case(jn.Where("l.k = r.k AND l.a >= r.a - 6 AND l.a <= r.a + 9", how="full")),
    "aggregates": Case(jn.Range(on="a", by="k", lower=-9, upper=6, agg={"n": "sum"})),
    "asof": Case(jn.Asof(on="a", by="k", tolerance=20)),
    "decoded": Case(
        jn.Range(on="a", by="k", lower=-1, upper=1, how="full"), rows=3_000, delay=100_000, kills_workers=True
    ),
    "changes-asof": Case(jn.Asof(on="on", by="k", how="full"), changes=True),
}


def write_input(case: Case, folder: Path, batches: int, chance: random.Random) -> dict[str, pa.Table]:
    """Write the files of both sides of a case, and return their rows.

    The last row of each is far beyond all others, so that nothing waits when it has passed. It matches nothing.
    """
    sides = {}
    for side in ("left", "right"):
        steps = (30 if chance.random() < 0.01 else chance.choice([0, 0, 0, 1]) for _ in range(batches * case.rows))
        grown = list(accumulate(steps))
        values = [value - chance.randint(0, 5) for value in grown]
        keys = [chance.choice([None, "a", "b", "c"]) for _ in grown]
        columns = [*keys, f"end of {side}"], [*values, grown[-1] + case.delay + 10_000], [*range(len(grown)), -1]
        rows = pa.table(dict(zip(("k", "a", "n"), columns, strict=True)))
        last = (batches - 1) * case.rows
        starts = range(0, last, case.rows)
        write_files([*(rows.slice(start, case.rows) for start in starts), rows.slice(last)], folder / side)
        sides[side] = rows
    return sides


def run_with_kills(name: str, folder: Path, *, batches: int, kills: int, chance: random.Random) -> pa.Table:
    """Run a case to its end, and return what it has given; on the way it is killed so many times.

    Parameters
    ----------
    name
        Of the case.
    folder
        Where `write_input` has written; the checkpoint and the answer come to lie beside.
    batches
        Files of a side.
    kills
        How many times the whole of it is killed, each time a random moment after a micro-batch has begun.
    chance
        Chooses the moments.
    """
    moments = sorted(chance.choices(range(batches - 2), k=kills))
    if not CASES[name].kills_workers:
        for begun in moments:
            with _started(name, folder) as process:
                _wait_for_moment(process, folder, begun, batches - 1, chance.random())
                assert process.poll() is None, f"ended before it was killed:\n{(folder / LOG).read_text()}"
    with _started(name, folder) as process:
        for begun in moments if CASES[name].kills_workers else ():
            _wait_for_moment(process, folder, begun, batches - 1, chance.random())
            # One at a time: Spark hands out several idle ones that are dead to one task after the other.
            if workers := [*_workers_in(process.pid)]:
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
        assert process.wait(timeout=300) == 0, (folder / LOG).read_text()
    return pq.read_table(folder / ANSWER)


def _wait_for_moment(process: subprocess.Popen[bytes], folder: Path, begun: int, last: int, part: float) -> None:
    """Wait until a micro-batch has begun, and for a part of the time that one takes, but not for the last one."""

    def is_under_way(number: int) -> bool:
        is_started = (folder / f"{process.pid}.started").exists()
        return process.poll() is not None or (is_started and _batches(folder, "offsets") > number)

    # Each has its time: on a busy machine, several that come before may take longer than a single one ever should.
    for number in range(begun + 1):
        wait_for(partial(is_under_way, number), "a micro-batch")
    moment = time.monotonic() + part * _batch_s(folder)
    while time.monotonic() < moment and _batches(folder, "commits") < last:
        time.sleep(0.005)


def _batch_s(folder: Path) -> float:
    """Return how long a micro-batch takes, at the median; a second as long as that is not known."""
    ends = sorted(path.stat().st_mtime for path in folder.glob("checkpoint/commits/[0-9]*"))
    return median([1.0] if len(ends) < 2 else [after - before for before, after in pairwise(ends)])


def _batches(folder: Path, log: str) -> int:
    """Return how many micro-batches the checkpoint has a record of."""
    return sum(path.name.isdecimal() for path in folder.glob(f"checkpoint/{log}/*"))


@contextmanager
def _started(name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a case in a process that leads a session of its own, of which nothing is left when the block ends."""
    with no_session(), (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.faulty_stream", name, str(folder)],
            cwd=TESTS,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _kill(process)


def _kill(leader: subprocess.Popen[bytes]) -> None:
    """End all processes of a session at once; Python's workers are in a process group of their own."""
    leader.kill()
    while members := [pid for pid in _alive_in(leader.pid) if pid != leader.pid]:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    leader.wait()


def _alive_in(session: int) -> Iterator[int]:
    """Yield the processes of a session that have not ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, its_session = path.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                yield int(path.parent.name)


def _workers_in(session: int) -> Iterator[int]:
    """Yield Python's workers: those whose parent, which they are forked from, has the same arguments."""
    arguments = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _alive_in(session)}
    for pid, own in arguments.items():
        with suppress(FileNotFoundError, ProcessLookupError):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if own and arguments.get(parent) == own:
                yield pid


def main(name: str, folder: Path) -> None:
    """Run a case from where it was left to its end."""
    case = CASES[name]
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    # Spark repeats a task up to nine times.
    spark = session_for_tests(master="local[2, 10]" if case.kills_workers else "local[2]")
    spark.conf.set(STORE, ROCKS)
    if case.kills_workers:
        spark.conf.set(PARTITIONS, "1")
    streams = [read_stream(spark, folder / side) for side in ("left", "right")]
    orders = {f"{side}_order": jn.Order("a", delay=case.delay) for side in ("left", "right")}
    joined = jn.changes(*streams, case.spec) if case.changes else jn.stream(*streams, case.spec, **orders)
    (folder / f"{os.getpid()}.started").touch()
    pq.write_table(run(joined, folder).answer, folder / ANSWER)
    assert case.kills_workers == any((folder / "local").glob("*/juncture-state/*/*"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
