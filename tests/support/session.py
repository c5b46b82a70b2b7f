"""A Spark session for tests: small joins one after the other, on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SPARK_SETTINGS", "session_for_tests", "with_time"]

TESTS = Path(__file__).parent.parent

# What small joins spend is compilation and garbage, in the JVM and in Python's workers. The first is for all sessions,
# in processes that tests start as well.
# With its first compiler alone, the JVM keeps 48 MB of compiled code unless told otherwise; hundreds of queries have
# more, which it would throw away and compile again.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{JAVA_OPTIONS}' pyspark-shell"
SPARK_SETTINGS = {
    "spark.python.daemon.module": "support.daemon",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    # Otherwise workers of streams have another environment, and a process of their own that they are forked from.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    # What tests of analyze() ask; at any free port.
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}


def session_for_tests(*, connect: bool = False, master: str = "local[2]") -> SparkSession:
    """Start a session, or return the one that is there."""
    from juncture.spark.session.session import session_at

    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(TESTS), *filter(None, folders)]))
    settings = {"spark.driver.memory": "1g", **SPARK_SETTINGS}
    return session_at(master, "juncture-tests", remote="local[2]" if connect else None, settings=settings)


@contextmanager
def with_time(session: SparkSession) -> Iterator[SparkSession]:
    """Let a session have the type TIME, which is off in some versions of Spark."""
    before = session.conf.get("spark.sql.timeType.enabled")
    session.conf.set("spark.sql.timeType.enabled", "true")
    yield session
    session.conf.set("spark.sql.timeType.enabled", before)
