"""Runs contestants in turn, each run in a process of its own, and keeps what was measured.

Nothing here knows what is joined: a workload gives `Scenario` values and a function that checks answers.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from juncture.errors import DataError
from juncture_benchmarks.machine import describe_machine, describe_versions, load_average
from juncture_benchmarks.process import available_bytes, kill_tree, tree_bytes

_POLL_S = 0.2
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Interrupt)\b")


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """Something that can run a workload.

    Attributes
    ----------
    name
        Its short name on the command line and in results.
    title
        Its name in tables.
    package
        The package that it needs.
    ours
        Whether it is Juncture.
    trial, arguments
        The function that makes its trial, as ``module:function``, and what it is called with.
    """

    name: str
    title: str
    package: str
    ours: bool
    trial: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Contestants that do the same work on the same data.

    Attributes
    ----------
    name, title
        Its short name, and what it is in words.
    facts
        Its sizes, and whatever else a reader of the results needs, as plain data.
    contestants
        The contestants, in order.
    check
        Returns the error in a contestant's result, or None.
    """

    name: str
    title: str
    facts: dict[str, Any]
    contestants: tuple[Contestant, ...]
    check: Callable[[Contestant, dict[str, Any]], str | None] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a run.

    Attributes
    ----------
    timeout_s
        Seconds for a whole run, process start and warm-up included.
    memory_bytes
        Resident memory of the run's processes together.
    """

    timeout_s: float
    memory_bytes: int

    @staticmethod
    def of_this_machine(timeout_s: float = 600.0) -> Limits:
        """Return limits that leave a tenth of the free memory."""
        return Limits(timeout_s=timeout_s, memory_bytes=int(available_bytes() * 0.9))


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of one run.

    Attributes
    ----------
    status
        ``"ok"``, ``"wrong answer"``, ``"not finished"``, ``"out of memory"``, ``"failed"`` or ``"missing"``.
    reason
        Why it is not ``"ok"``.
    measured
        Times in seconds, memory in bytes and the answer, of a run that is ``"ok"``.
    """

    status: str
    reason: str = ""
    measured: dict[str, Any] = field(default_factory=dict)


def run_once(contestant: Contestant, limits: Limits) -> Run:
    """Run a contestant once, in a process of its own that is killed when it goes past a limit.

    Parameters
    ----------
    contestant
        The contestant.
    limits
        Limits of the run.

    Returns
    -------
    Run
        Its answer is not checked yet.
    """
    if find_spec(contestant.package) is None:
        return Run(status="missing", reason=f"the package {contestant.package!r} is not installed")
    with tempfile.TemporaryDirectory(prefix="juncture-bench-") as folder:
        job, result, log = (Path(folder) / name for name in ("job.json", "result.json", "log.txt"))
        job.write_text(json.dumps({"trial": contestant.trial, "arguments": contestant.arguments}))
        with log.open("wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "juncture_benchmarks.trial", str(job), str(result)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
            try:
                stopped = _wait(child, limits)
            finally:
                # A process that has ended has given its number back, perhaps to another.
                if child.poll() is None:
                    kill_tree(child.pid)
                    child.wait()
        if stopped:
            return stopped
        if child.returncode:
            return Run(status="failed", reason=_error(log, child.returncode))
        return Run(status="ok", measured=json.loads(result.read_text()))


def _wait(child: subprocess.Popen[bytes], limits: Limits) -> Run | None:
    """Wait until a process ends, which gives None, or goes past a limit."""
    started_s = time.monotonic()
    while True:
        try:
            child.wait(_POLL_S)
            return None
        except subprocess.TimeoutExpired:
            if time.monotonic() - started_s > limits.timeout_s:
                return Run(status="not finished", reason=f"stopped after {limits.timeout_s:g} s")
            if tree_bytes(child.pid) > limits.memory_bytes:
                return Run(status="out of memory", reason=f"stopped at {limits.memory_bytes / 1e9:.1f} GB")


def _error(log: Path, code: int) -> str:
    """Return the line that says why a process failed: the last that starts with the name of an exception."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if _EXCEPTION.match(line)]
    return lines[-1] if lines else f"ended with code {code}"


def run_scenario(
    scenario: Scenario, *, repeat: int, limits: Limits, announce: Callable[[str], None], note: str = ""
) -> dict[str, Any]:
    """Run all contestants of a scenario in turn, `repeat` times round, and return what happened as plain data.

    Turns alternate so that a machine that gets slower or faster does so for all. A contestant whose run is not ``"ok"``
    is not run again.

    Parameters
    ----------
    scenario
        The scenario.
    repeat
        Number of rounds.
    limits
        Limits of a run.
    announce
        Called with a line of text after each run.
    note
        A note on the circumstances for readers of the results.

    Returns
    -------
    dict
        The scenario's name, title and facts, the date, the machine, the versions and an entry for each contestant.
    """
    result = circumstances(
        scenario.name,
        scenario.title,
        scenario.facts,
        packages=[each.package for each in scenario.contestants],
        repeat=repeat,
        limits=limits,
        note=note,
    )
    runs: dict[str, list[Run]] = {each.name: [] for each in scenario.contestants}
    for turn in range(repeat):
        for contestant in scenario.contestants:
            so_far = runs[contestant.name]
            if any(run.status != "ok" for run in so_far):
                continue
            so_far.append(_checked(scenario, contestant, run_once(contestant, limits)))
            announce(f"{scenario.name} {turn + 1}/{repeat}  {contestant.title}: {_one_line(so_far[-1])}")
    return {**result, "entries": [_entry(each, runs[each.name]) for each in scenario.contestants]}


def circumstances(
    name: str, title: str, facts: dict[str, Any], *, packages: Iterable[str], repeat: int, limits: Limits, note: str
) -> dict[str, Any]:
    """Return what a result says besides the figures: what was measured, when, on what and with which versions."""
    return {
        "name": name,
        "title": title,
        "facts": facts,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "load_average": load_average(),
        "note": note,
        "repeat": repeat,
        "limits": asdict(limits),
        "versions": describe_versions(sorted({"juncture", "numpy", "numba", "pyarrow", *packages})),
    }


def _checked(scenario: Scenario, contestant: Contestant, run: Run) -> Run:
    """Turn a run with a wrong answer into one that has no time."""
    if run.status == "ok" and (wrong := scenario.check(contestant, run.measured["answer"])):
        return Run(status="wrong answer", reason=wrong)
    return run


def _one_line(run: Run) -> str:
    """Return a line about the result of a run."""
    if run.status != "ok":
        return f"{run.status} ({run.reason})"
    return f"{run.measured['seconds']:.2f} s, {run.measured['peak_bytes'] / 1e9:.2f} GB"


def _entry(contestant: Contestant, runs: Sequence[Run]) -> dict[str, Any]:
    """Sum up a contestant's runs: medians, if all of them went well."""
    entry: dict[str, Any] = {
        "contestant": contestant.name,
        "title": contestant.title,
        "ours": contestant.ours,
        "status": runs[-1].status,
        "reason": runs[-1].reason,
    }
    measured = [run.measured for run in runs if run.status == "ok"]
    if measured and entry["status"] == "ok":
        names = [name for name, value in measured[0].items() if isinstance(value, int | float)]
        entry["median"] = {name: statistics.median(run[name] for run in measured) for name in names}
        entry["answer"] = measured[0]["answer"]
    entry["runs"] = [{name: value for name, value in run.items() if name != "answer"} for run in measured]
    return entry


def only_named(scenario: Scenario, names: Collection[str]) -> Scenario:
    """Keep only the named contestants. A name such as ``juncture-frames`` selects all with this prefix."""
    if not names:
        return scenario
    return replace(scenario, contestants=tuple(each for each in scenario.contestants if is_named(each.name, names)))


def is_named(name: str, names: Collection[str]) -> bool:
    """Return whether one of some names is a name, or its prefix up to a dash.

    Examples
    --------
    >>> is_named("spark-seed-10k", ["local", "spark-seed"]), is_named("spark-seeds", ["spark-seed"])
    (True, False)
    """
    return any(f"{name}-".startswith(f"{each}-") for each in names)


def data_folder() -> Path:
    """Return the user's cache folder for generated tables."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "juncture" / "bench"


def load_results(path: Path) -> list[dict[str, Any]]:
    """Read the scenarios that a results file holds; none if there is no file.

    Raises
    ------
    DataError
        If the file holds something else.
    """
    if not path.exists():
        return []
    try:
        scenarios = json.loads(path.read_text())["scenarios"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{str(path)!r} does not hold benchmark results ({error}); move it away") from error
    return list(scenarios)


def save_results(path: Path, scenarios: Iterable[dict[str, Any]]) -> None:
    """Write scenarios into a results file, in place of earlier ones of the same name; the others stay."""
    merged = {each["name"]: each for each in [*load_results(path), *scenarios]}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"scenarios": list(merged.values())}, indent=1) + "\n")
    partial.rename(path)
