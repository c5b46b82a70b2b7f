"""Processes that run joins one after the other, each until it is done, fails, or has taken too long.

A process is kept for many joins, so that neither its start nor compilation is in any time; after a join that had to be
stopped there is another one.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from juncture.errors import PlanError
from juncture.joins.planning import plan
from juncture.spec.kinds import Spec
from juncture_benchmarks.benchmark import Engine
from juncture_benchmarks.harness import Run
from juncture_benchmarks.pairs import Answer, found_pairs
from juncture_benchmarks.process import kill_tree, tree_bytes
from juncture_benchmarks.session import bench_session, observed_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Job", "Worker", "on_spark"]

_POLL_S = 0.25
_GRACE_S = 15.0
"""Seconds for Spark to stop by itself."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A join to be timed.

    Attributes
    ----------
    left, right
        Folders of Parquet files.
    spec, memory, as_frames, shown
        As for `juncture_benchmarks.planner.workload.Workload`.
    algorithm
        The algorithm, or ``"auto"``.
    limit_s
        Limits of a run.
    """

    left: str
    right: str
    spec: Spec
    algorithm: str
    limit_s: float
    shown: tuple[str, str]
    memory: str | None = None
    as_frames: bool = False


class Worker:
    """A process that runs jobs, and the next one where that had to be stopped.

    Parameters
    ----------
    engine
        The engine.
    memory_bytes
        Limit of the memory of all its processes.
    """

    def __init__(self, engine: Engine, memory_bytes: int) -> None:
        self._engine = engine
        self._memory_bytes = memory_bytes
        self._process: Any = None
        self._connection: Connection | None = None
        self._warm: set[tuple[str, str]] = set()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, job: Job, tiny: Job) -> Run:
        """Run a join; ``measured`` holds ``seconds``, ``algorithm``, ``costs`` by algorithm, and ``answer``.

        A process that has not yet run such a join does the tiny one first. The status is ``"refused"`` where the
        planner does not let the algorithm run.
        """
        connection = self._started()
        kind = (repr(job.spec), job.algorithm)
        if kind not in self._warm:
            self._warm.add(kind)
            self._result(connection, tiny)
            connection = self._started()
        return self._result(connection, job)

    def _result(self, connection: Connection, job: Job) -> Run:
        connection.send(job)
        grace_s = _GRACE_S if self._engine == "spark" else 0.0
        deadline_s = time.monotonic() + job.limit_s + grace_s
        while not connection.poll(_POLL_S):
            if time.monotonic() > deadline_s:
                self._end()
                return _stopped(job)
            if tree_bytes(self._process.pid) > self._memory_bytes:
                self._end()
                return Run(status="out of memory", reason=f"stopped at {self._memory_bytes / 1e9:.1f} GB")
        try:
            run: Run = connection.recv()
        except EOFError:
            self._end()
            return Run(status="failed", reason="its process ended")
        return run

    def _started(self) -> Connection:
        """Return the way to the process, which is started if there is none."""
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._engine), daemon=True)
            self._process.start()
            theirs.close()
            # Reports that it is ready.
            self._connection.recv()
        return self._connection

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            kill_tree(self._process.pid)
            self._process.join()
            self._connection = None
            self._warm = set()


def _serve(connection: Connection, engine: Engine) -> None:
    """Run incoming jobs, and send back their results."""
    join = _join_in_process if engine == "local" else on_spark(bench_session())
    connection.send("ready")
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(_tried(join, job))


def _tried(join: Callable[[Job], dict[str, Any]], job: Job) -> Run:
    began = time.perf_counter()
    try:
        return Run(status="ok", measured=join(job))
    except PlanError as error:
        return Run(status="refused", reason=str(error))
    except Exception as error:  # what may come of a join that is stopped, or fails, is Spark's to say
        if time.perf_counter() - began >= job.limit_s:
            return _stopped(job)
        return Run(status="failed", reason=f"{type(error).__name__}: {error}"[:500])


def _stopped(job: Job) -> Run:
    return Run(status="stopped", reason=f"after {job.limit_s:.1f} s")


def _join_in_process(job: Job) -> dict[str, Any]:
    began = time.perf_counter()
    made = plan(job.left, job.right, job.spec, algorithm=job.algorithm, memory=job.memory)
    result = made.execute()
    seconds = time.perf_counter() - began
    kept = pa.table({name: pc.fill_null(result[name], -1) for name in job.shown})
    return _measured(seconds, made, found_pairs(job.shown, kept))


def on_spark(session: SparkSession) -> Callable[[Job], dict[str, Any]]:
    """Return what runs jobs on Spark, and stops what takes too long."""

    def join(job: Job) -> dict[str, Any]:
        timer = threading.Timer(job.limit_s, session.interruptAll)
        timer.start()
        try:
            began = time.perf_counter()
            sides: list[Any] = [job.left, job.right]
            if job.as_frames:
                # More than a scan of files, which tasks would read themselves.
                sides = [session.read.parquet(side).where("id >= 0") for side in sides]
            made = plan(sides[0], sides[1], job.spec, algorithm=job.algorithm, spark=session)
            answer = observed_answer(made.execute().na.fill(-1, list(job.shown)), job.shown)
            return _measured(time.perf_counter() - began, made, answer)
        finally:
            timer.cancel()

    return join


def _measured(seconds: float, made: Any, answer: Answer) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "algorithm": made.algorithm,
        "costs": {
            option.algorithm: option.cost_s
            for option in made.choice.options
            if option.excluded is None and option.cost_s is not None
        },
        "answer": {"rows": answer.rows, "sums": list(answer.sums)},
    }
