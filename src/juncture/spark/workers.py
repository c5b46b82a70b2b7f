"""Check whether Spark's Python workers can run tasks, before anything else runs.

Spark chooses the workers' Python: ``PYSPARK_PYTHON`` at the start of Spark, or any ``python3``. It may lack Juncture
or have another version, and a task would fail with an import traceback.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from juncture.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSIONS = 4
"""Number of sessions whose successful check is cached."""


@dataclass(frozen=True)
class Worker:
    """A worker's Python: its path, its version of Juncture (empty if none), and missing packages."""

    executable: str
    version: str
    missing: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """Return why it cannot run tasks, or None.

        Examples
        --------
        >>> Worker("/usr/bin/python3", "", ("juncture", "numba")).problem
        "Spark's workers run /usr/bin/python3, which cannot import juncture and numba."
        """
        if self.missing:
            return f"Spark's workers run {self.executable}, which cannot import {' and '.join(self.missing)}."
        if self.version != _version():
            here = f"this process has {_version()}"
            return f"Spark's workers run {self.executable} with juncture {self.version}, but {here}."
        return None


def check_workers(session: SparkSession, others: Sequence[str]) -> None:
    """Raise `PlanError` if Python workers cannot run tasks; `others` are algorithms without Python.

    Runs one small job per session, on one worker: machines of a cluster may differ.
    """
    try:
        check_session(session)
    except PlanError as error:
        names = " or ".join(map(repr, others))
        instead = f" Or pass algorithm={names}, which needs no Python workers." if others else ""
        raise PlanError(
            f"{error.message} Before Spark starts, set PYSPARK_PYTHON to a Python {sys.version_info[0]}."
            f"{sys.version_info[1]} on its machines with juncture {_version()} (here: {sys.executable}).{instead}",
            name="JN-WORKER-PYTHON",
        ) from error.__cause__


@lru_cache(_SESSIONS)
def check_session(session: SparkSession) -> None:
    """Raise `PlanError` if a worker cannot run tasks. Only success is cached."""
    from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

    # Without Arrow, which may be what is missing.
    asked = F.udf(_question(), "string", useArrow=False)
    try:
        answer = session.range(1).select(asked("id")).collect()[0][0]
    except Exception as error:  # what Python, Py4J, the JVM and Spark Connect raise has nothing else in common
        raise PlanError(no_answer(str(error)), name="JN-WORKER-PYTHON") from error
    problem = Worker(**json.loads(answer)).problem
    if problem is not None:
        raise PlanError(problem, name="JN-WORKER-PYTHON")


def _question() -> Callable[[int], str]:
    """Return the check as code, since a worker may lack the module."""

    def answer(_: int) -> str:
        import json
        import sys
        from importlib import import_module

        versions, missing = {}, []
        for name in ("juncture", "numba", "numpy", "pyarrow"):
            try:
                versions[name] = import_module(name).__version__
            except ImportError:
                missing.append(name)
        version = versions.get("juncture", "")
        return json.dumps({"executable": sys.executable, "version": version, "missing": missing})

    return answer


def _version() -> str:
    """Return this process's version of Juncture."""
    return str(import_module("juncture").__version__)


def no_answer(message: str) -> str:
    """Return one sentence from Spark's message for a worker that did not answer.

    Examples
    --------
    >>> no_answer('java.io.IOException: Cannot run program "python3": error=2, No such file or directory')
    "Spark's workers run python3, which does not exist."
    """
    versions = re.search(r"Python in worker has different version: (\S+) than that in driver: ([\d.]+)", message)
    if versions:
        return f"Spark's workers run Python {versions[1]}, but this process runs Python {versions[2].rstrip('.')}."
    missing = re.search(r'Cannot run program "([^"]+)"', message)
    if missing:
        return f"Spark's workers run {missing[1]}, which does not exist."
    # The last line of Python's traceback, which is inside the JVM's.
    said = re.findall(r"^\w+(?:Error|Exception): .*$", message, re.MULTILINE) or [message.strip().partition("\n")[0]]
    return f"Spark's workers cannot run Python: {said[-1].rstrip('.')}."
