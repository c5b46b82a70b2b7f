"""Runs every workload under every algorithm that applies, and under the one that the planner chooses."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from juncture.planner.choose import algorithms_of
from juncture.planner.explain.meaning import title_of
from juncture_benchmarks.benchmark import Engine, Options
from juncture_benchmarks.harness import Run, circumstances
from juncture_benchmarks.planner.grid import workloads
from juncture_benchmarks.planner.worker import Job, Worker
from juncture_benchmarks.planner.workload import Workload, write_rows

__all__ = ["AUTO", "ENOUGH_S", "NEAR", "SLOW", "run_workloads"]

AUTO = "auto"
"""The contestant that takes what the planner chooses, planning included."""

SLOW = 5.0
"""A run is stopped at this multiple of the best time so far, because it can be neither the fastest nor the choice."""

_LIMIT_LEAST_S = {"local": 1.0, "spark": 5.0}
"""No run is stopped before that: a first one may still have something to compile."""

NEAR = 2.0
"""A contestant beyond this multiple of the best time is not run again."""

ENOUGH_S = {"local": 1.0, "spark": 3.0}
"""Runs are repeated until they have taken so long together, so that medians of short ones are stable."""

_TURNS_MOST = 9


def run_workloads(names: Sequence[str], options: Options) -> Iterator[dict[str, Any]]:
    """Measure some workloads, and yield their results."""
    chosen = [each for each in workloads() if each.name in names]
    options.data.mkdir(parents=True, exist_ok=True)
    for engine in get_args(Engine):
        mine = [each for each in chosen if each.engine == engine]
        if mine:
            with Worker(engine, options.limits.memory_bytes) as worker:
                for workload in mine:
                    yield _measure(workload, worker, options)


def _measure(workload: Workload, worker: Worker, options: Options) -> dict[str, Any]:
    facts = {
        "engine": workload.engine,
        "kind": title_of(workload.spec),
        "left_rows": workload.left.count,
        "right_rows": workload.right.count,
        "memory": workload.memory,
    }
    result = circumstances(
        workload.name,
        workload.title,
        facts,
        packages=["pyspark"] if workload.engine == "spark" else [],
        repeat=options.repeat,
        limits=options.limits,
        note=options.note,
    )
    options.announce(f"{workload.name}: preparing {workload.title}")
    with TemporaryDirectory(prefix="planner-", dir=options.data) as folder:
        tiny = _job(workload.tiny(), Path(folder, "tiny"), options.limits.timeout_s)
        algorithms = [AUTO, *algorithms_of(workload.spec, workload.engine)]
        if options.only:
            algorithms = [name for name in algorithms if name in options.only]
        contest = _Contest(workload, worker, _job(workload, Path(folder, "tables"), options.limits.timeout_s), tiny)
        contest.first_turn(algorithms)
        contest.more_turns(options.repeat)
    for line in contest.lines():
        options.announce(f"{workload.name}  {line}")
    return {**result, "entries": contest.entries()}


def _job(workload: Workload, folder: Path, limit_s: float) -> Job:
    tables = write_rows(workload, folder)
    return Job(
        left=str(tables.left),
        right=str(tables.right),
        spec=workload.spec,
        algorithm=AUTO,
        limit_s=limit_s,
        shown=workload.shown,
        memory=workload.memory,
        as_frames=workload.as_frames,
    )


class _Contest:
    """The runs of one workload."""

    def __init__(self, workload: Workload, worker: Worker, job: Job, tiny: Job) -> None:
        self._engine, self._worker, self._job, self._tiny = workload.engine, worker, job, tiny
        self._runs: dict[str, list[Run]] = {}

    def first_turn(self, names: Collection[str]) -> None:
        """Run everyone once, the choice first, then those that should be fast."""
        costs: dict[str, float] = {}
        if AUTO in names:
            self._run(AUTO, self._job.limit_s)
            costs = self._runs[AUTO][0].measured.get("costs", {})
        others = (name for name in names if name != AUTO)
        for name in sorted(others, key=lambda each: costs.get(each, float("inf"))):
            best = self._best()
            least = _LIMIT_LEAST_S[self._engine]
            self._run(name, self._job.limit_s if best is None else max(least, SLOW * best))

    def more_turns(self, repeat: int) -> None:
        """Run those that may be the fastest again, in turn, until their medians are stable."""
        for turn in range(1, max(_TURNS_MOST, repeat)):
            near = self._near()
            taken_s = [sum(run.measured["seconds"] for run in self._runs[name]) for name in near]
            if turn >= repeat and min(taken_s, default=ENOUGH_S[self._engine]) >= ENOUGH_S[self._engine]:
                return
            # Alternate the order, so that no contestant always follows the same one.
            for name in near if turn % 2 == 0 else reversed(near):
                self._run(name, self._job.limit_s)

    def entries(self) -> list[dict[str, Any]]:
        """Return the result of each contestant."""
        return [self._entry(name, runs) for name, runs in self._runs.items()]

    def lines(self) -> Iterator[str]:
        """Announce the result of each contestant in a line."""
        for entry in self.entries():
            seconds = f"{entry['median']['seconds']:.3f} s" if "median" in entry else entry["reason"]
            yield f"{entry['contestant']}: {entry['status']}, {seconds}, {len(entry['runs'])} runs"

    def _run(self, name: str, limit_s: float) -> None:
        run = self._worker.run(replace(self._job, algorithm=name, limit_s=limit_s), replace(self._tiny, algorithm=name))
        first = next((each for runs in self._runs.values() for each in runs if each.status == "ok"), run)
        if run.status == "ok" and run.measured["answer"] != first.measured["answer"]:
            run = Run(status="wrong answer", reason=f"{run.measured['answer']}, and not {first.measured['answer']}")
        self._runs.setdefault(name, []).append(run)

    def _median(self, name: str) -> float | None:
        runs = self._runs[name]
        if any(run.status != "ok" for run in runs):
            return None
        return float(statistics.median(run.measured["seconds"] for run in runs))

    def _best(self) -> float | None:
        return min((median for name in self._runs if (median := self._median(name)) is not None), default=None)

    def _near(self) -> list[str]:
        best = self._best() or 0.0
        medians = {name: self._median(name) for name in self._runs}
        # The choice is always run as often as the others, however slow it is.
        return [name for name, each in medians.items() if each is not None and (each <= NEAR * best or name == AUTO)]

    def _entry(self, name: str, runs: list[Run]) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "contestant": name,
            "status": runs[-1].status,
            "reason": runs[-1].reason,
            "runs": [{"seconds": run.measured["seconds"]} for run in runs if run.status == "ok"],
        }
        if (median := self._median(name)) is not None:
            entry["median"] = {"seconds": median}
            entry["answer"] = runs[0].measured["answer"] | {"chosen": runs[0].measured["algorithm"]}
            entry["costs"] = runs[0].measured["costs"]
        return entry
