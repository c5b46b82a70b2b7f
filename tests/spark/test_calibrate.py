"""What single steps take on Spark: every constant that the file may have of it is measured, and positive."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from juncture.calibrate.spark import measure_spark
from juncture.planner.constants import Constants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_steps_are_measured(spark: SparkSession) -> None:
    told: list[str] = []
    measured = measure_spark(spark, told.append, rows=1_000)
    assert told == ["reading and shuffling", "Python", "comparing"]
    assert set(measured) <= {each.name for each in fields(Constants)}
    assert len(measured) == 12
    assert min(measured.values()) > 0
