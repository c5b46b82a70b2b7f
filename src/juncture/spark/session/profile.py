"""Measurements of a join on Spark, by public interfaces."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import StateError
from juncture.planner.report import Measured
from juncture.runtime.progress import Phase
from juncture.spark.session.ui import Driver, tagged

_SIDES = ("left, right", "counting the rows of a side would prevent Spark from pruning them")
_STAGES = ("stages", "shuffle", "spilled", "memory")


def measure(frame: DataFrame) -> Measured:
    """Compute all rows of a result without keeping them, and return the measurements.

    An observation counts rows on their way to Spark's ``noop`` sink. The driver's REST interface, if available, has the
    figures of the stages.
    """
    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    began_s = time.time()
    with tagged(frame.sparkSession) as tag:
        began = time.perf_counter()
        observed.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
    rows = int(observation.get["rows"])
    try:
        stages = Driver.of(frame.sparkSession).stages(tag, began_s)
    except StateError as error:
        return Measured(
            duration_s=seconds,
            output_rows=rows,
            phases=(Phase(name="query", start_s=0.0, duration_s=seconds),),
            unknown=(_SIDES, *((heading, error.message) for heading in _STAGES)),
        )
    return Measured(
        duration_s=seconds,
        output_rows=rows,
        phases=stages.phases,
        shuffle_bytes=stages.shuffle_bytes,
        spilled_bytes=stages.spilled_bytes,
        task_bytes=stages.task_bytes,
        unknown=(_SIDES,),
    )
