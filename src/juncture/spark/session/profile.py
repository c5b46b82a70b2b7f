"""Measurements of a join on Spark, by an observation and by the REST interface of the session's driver if its UI is on.

Source: "Monitoring and Instrumentation" in Spark's documentation, section "REST API".
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import StateError
from juncture.planner.report import Measured
from juncture.runtime.progress import Phase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_TIMEOUT_S = 5.0  # timeout for the driver to answer, and to register the end of all jobs
_PAUSE_S = 0.05


@contextmanager
def tagged(session: SparkSession) -> Iterator[str]:
    """Tag the jobs that this thread starts, to identify them later."""
    tag = f"juncture-{uuid4().hex}"
    session.addTag(tag)
    try:
        yield tag
    finally:
        session.removeTag(tag)


@dataclass(frozen=True)
class Driver:
    """The REST interface of a session's driver; `address` is the base address of the application."""

    address: str

    @classmethod
    def of(cls, session: SparkSession) -> Driver:
        """Return the driver of a session; raise `StateError` with the reason if it has no REST interface."""
        try:
            context = session.sparkContext
        except (AttributeError, PySparkException) as error:
            raise StateError(
                "Spark Connect does not publish the metrics of a query. Use a classic session", name="JN-SPARK-METRICS"
            ) from error
        if context.uiWebUrl is None:
            raise StateError("the UI of this session is off (spark.ui.enabled)", name="JN-SPARK-METRICS")
        return cls(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}")

    def stages(self, query: Measured, tag: str, began_s: float) -> Measured:
        """Return measurements with those of the stages of tagged jobs, which began at `began_s` since 1970.

        Raises `StateError` if the driver does not answer as expected.
        """
        try:
            numbers = {number for job in self._ended_jobs(tag) for number in job["stageIds"]}
            all_stages = [stage for number in sorted(numbers) for stage in self._get(f"stages/{number}")]
            done = [stage for stage in all_stages if stage["status"] in ("COMPLETE", "FAILED")]
            peaks = [self._task_bytes(stage) for stage in done]
            phases = sorted((_phase(stage, began_s) for stage in done), key=lambda phase: phase.start_s)
        except (URLError, OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"the driver's UI at {self.address} did not answer: {error}", name="JN-SPARK-METRICS"
            ) from error
        if not phases:
            raise StateError(f"the driver's UI at {self.address} lists no stage of this query", name="JN-SPARK-METRICS")
        return replace(
            query,
            phases=tuple(phases),
            shuffle_bytes=sum(stage["shuffleWriteBytes"] for stage in done),
            spilled_bytes=sum(stage["diskBytesSpilled"] for stage in done),
            task_bytes=max(peaks, default=0),
            unknown=(_SIDES,),
        )

    def _ended_jobs(self, tag: str) -> list[Mapping[str, Any]]:
        """Return the tagged jobs, waiting until the driver has registered their end."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            jobs = [job for job in self._get("jobs") if any(tag in each for each in job.get("jobTags", ()))]
            if (jobs and all(job["status"] != "RUNNING" for job in jobs)) or time.monotonic() > deadline:
                return jobs
            time.sleep(_PAUSE_S)

    def _task_bytes(self, stage: Mapping[str, Any]) -> int:
        """Return the largest execution memory of a task."""
        summary = self._get(f"stages/{stage['stageId']}/{stage['attemptId']}/taskSummary?quantiles=1.0")
        return int(summary["peakExecutionMemory"][0])

    def _get(self, path: str) -> Any:
        # The driver is in this network, so proxies of the environment do not apply.
        with build_opener(ProxyHandler({})).open(f"{self.address}/{path}", timeout=_TIMEOUT_S) as answer:
            return json.load(answer)


def _phase(stage: Mapping[str, Any], began_s: float) -> Phase:
    start, end = (_seconds(stage[name]) for name in ("submissionTime", "completionTime"))
    return Phase(name=f"stage {stage['stageId']}", start_s=max(0.0, start - began_s), duration_s=max(0.0, end - start))


def _seconds(text: str) -> float:
    """Parse a time such as ``2026-11-21T18:00:00.123GMT`` as seconds since 1970."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC).timestamp()


_SIDES = ("left, right", "counting the rows of a side would prevent Spark from pruning them")
_STAGES = ("stages", "shuffle", "spilled", "memory")


def measure(frame: DataFrame) -> Measured:
    """Compute all rows of a result without keeping them, and return the measurements.

    An observation counts rows on their way to Spark's ``noop`` sink; the driver's REST interface measures stages.
    """
    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    began_s = time.time()
    with tagged(frame.sparkSession) as tag:
        began = time.perf_counter()
        observed.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
    query = Measured(duration_s=seconds, output_rows=int(observation.get["rows"]))
    try:
        return Driver.of(frame.sparkSession).stages(query, tag, began_s)
    except StateError as error:
        phase = Phase(name="query", start_s=0.0, duration_s=seconds)
        return replace(query, phases=(phase,), unknown=(_SIDES, *((heading, error.message) for heading in _STAGES)))
