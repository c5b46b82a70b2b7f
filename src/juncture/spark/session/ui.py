"""What Spark tells of the stages of a query: by the REST interface of the session's own driver, where its UI is on.

Source: "Monitoring and Instrumentation" in Spark's documentation, section "REST API".
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener
from uuid import uuid4

from pyspark.errors import PySparkException

from juncture.errors import StateError
from juncture.runtime.progress import Phase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S = 5.0
"""How long to wait for the driver to answer, and for it to have heard that all jobs have ended."""
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Stages:
    """What the stages of a query did.

    Attributes
    ----------
    phases
        One for each stage, in the order in which they began.
    shuffle_bytes
        Bytes that tasks wrote for others to read.
    spilled_bytes
        Bytes that tasks wrote to disk for want of memory.
    task_bytes
        The most that one task held in tables and sorts of the JVM.
    """

    phases: tuple[Phase, ...]
    shuffle_bytes: int
    spilled_bytes: int
    task_bytes: int


@contextmanager
def tagged(session: SparkSession) -> Iterator[str]:
    """Tag the jobs that this thread starts, so that they are known again."""
    tag = f"juncture-{uuid4().hex}"
    session.addTag(tag)
    try:
        yield tag
    finally:
        session.removeTag(tag)


@dataclass(frozen=True)
class Driver:
    """The driver of a session, as others can ask it.

    Attributes
    ----------
    address
        Of what it tells about the application.
    """

    address: str

    @classmethod
    def of(cls, session: SparkSession) -> Driver:
        """Return the driver of a session.

        Raises
        ------
        StateError
            If it cannot be asked, with the reason.
        """
        try:
            context = session.sparkContext
        except (AttributeError, PySparkException) as error:
            raise StateError("Spark Connect does not publish it", name="JN-SPARK-METRICS") from error
        if context.uiWebUrl is None:
            raise StateError("the UI of this session is off (spark.ui.enabled)", name="JN-SPARK-METRICS")
        return cls(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}")

    def stages(self, tag: str, began_s: float) -> Stages:
        """Return what the stages of the jobs with a tag did.

        Parameters
        ----------
        tag
            The tag.
        began_s
            When the query began, in seconds since 1970.

        Raises
        ------
        StateError
            If the driver does not answer as it should.
        """
        try:
            numbers = {number for job in self._ended_jobs(tag) for number in job["stageIds"]}
            found = [stage for number in sorted(numbers) for stage in self._get(f"stages/{number}")]
            done = [stage for stage in found if stage["status"] in ("COMPLETE", "FAILED")]
            peaks = [self._task_bytes(stage) for stage in done]
            phases = sorted((_phase(stage, began_s) for stage in done), key=lambda phase: phase.start_s)
        except (URLError, OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"the driver's UI at {self.address} did not answer: {error}", name="JN-SPARK-METRICS"
            ) from error
        if not phases:
            raise StateError(f"the driver's UI at {self.address} lists no stage of this query", name="JN-SPARK-METRICS")
        return Stages(
            phases=tuple(phases),
            shuffle_bytes=sum(stage["shuffleWriteBytes"] for stage in done),
            spilled_bytes=sum(stage["diskBytesSpilled"] for stage in done),
            task_bytes=max(peaks, default=0),
        )

    def _ended_jobs(self, tag: str) -> list[Mapping[str, Any]]:
        """Return the jobs with a tag. The driver hears of their end a moment after the query's."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            jobs = [job for job in self._get("jobs") if any(tag in each for each in job.get("jobTags", ()))]
            if (jobs and all(job["status"] != "RUNNING" for job in jobs)) or time.monotonic() > deadline:
                return jobs
            time.sleep(_PAUSE_S)

    def _task_bytes(self, stage: Mapping[str, Any]) -> int:
        """Return the most execution memory of a task."""
        summary = self._get(f"stages/{stage['stageId']}/{stage['attemptId']}/taskSummary?quantiles=1.0")
        return int(summary["peakExecutionMemory"][0])

    def _get(self, path: str) -> Any:
        # The driver is in this network, whatever proxies the environment names.
        with build_opener(ProxyHandler({})).open(f"{self.address}/{path}", timeout=_TIMEOUT_S) as answer:
            return json.load(answer)


def _phase(stage: Mapping[str, Any], began_s: float) -> Phase:
    start, end = (_seconds(stage[name]) for name in ("submissionTime", "completionTime"))
    return Phase(name=f"stage {stage['stageId']}", start_s=max(0.0, start - began_s), seconds=max(0.0, end - start))


def _seconds(text: str) -> float:
    """Read a time such as ``2026-11-21T18:00:00.123GMT``, as seconds since 1970."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC).timestamp()
