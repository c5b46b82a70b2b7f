"""A timed run, and its process.

``python -m juncture_benchmarks.trial JOB RESULT`` reads a job (the name of a function that makes a `Trial`, and its
arguments), runs the trial once and writes what happened.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from juncture_benchmarks.process import Watch


class Trial(Protocol):
    """A contestant on a workload."""

    def warm_up(self) -> None:
        """Do, untimed, whatever the first run in a process pays for: imports, compilation, a session."""

    def run(self) -> Any:
        """Do the work that is timed, from opening the files to a result that is whole."""

    def answer(self, result: Any) -> dict[str, Any]:
        """Describe the result, untimed, as plain data that can be compared with what was expected."""


def measure(trial: Trial) -> dict[str, Any]:
    """Run a trial once and return its time, memory and answer as plain data.

    Parameters
    ----------
    trial
        The trial.

    Returns
    -------
    dict
        ``seconds``, the fields of `juncture_benchmarks.process.Usage` (up to the end of the timed run),
        ``warm_up_s``, and ``answer``.
    """
    started_s = time.perf_counter()
    trial.warm_up()
    gc.collect()
    warm_up_s = time.perf_counter() - started_s
    with Watch() as watch:
        started_s = time.perf_counter()
        result = trial.run()
        seconds = time.perf_counter() - started_s
    usage = watch.usage()
    return {"seconds": seconds, **asdict(usage), "warm_up_s": warm_up_s, "answer": trial.answer(result)}


def make(job: dict[str, Any]) -> Trial:
    """Call the function that a job names as ``module:function``."""
    module, _, function = job["trial"].partition(":")
    factory: Callable[..., Trial] = getattr(importlib.import_module(module), function)
    return factory(**job["arguments"])


def main() -> None:
    """Measure the job that the command line names."""
    job, result = map(Path, sys.argv[1:3])
    measured = measure(make(json.loads(job.read_text())))
    # The parent reads it only when this process has ended well, so it need not be written at once.
    result.write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
