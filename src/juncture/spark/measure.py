"""What happens while a join runs on Spark, as far as its public interface tells."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.planner.run import Phase, Run

__all__ = ["measure"]

_UNKNOWN = (
    ("left, right", "counting what a side delivers would keep Spark from leaving rows out before it reads them"),
    ("shuffle", "Spark tells it in its own UI and event log, not through its public interface"),
    ("spilled", "likewise"),
    ("memory", "likewise; Python workers come and go with the tasks"),
)


def measure(frame: DataFrame) -> Run:
    """Compute all rows of a result, of which none is kept, and return what happened.

    Notes
    -----
    Rows are counted as they pass, by an observation; they go to Spark's ``noop`` sink, which takes and forgets them.
    """
    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    began = time.perf_counter()
    observed.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - began
    return Run(
        seconds=seconds,
        rows=int(observation.get["rows"]),
        phases=(Phase(name="query", start_s=0.0, seconds=seconds),),
        unknown=_UNKNOWN,
    )
