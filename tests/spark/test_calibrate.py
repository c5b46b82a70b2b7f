"""What single steps take on Spark."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from juncture.calibrate.spark import _constants, measure_spark
from juncture.planner.constants import Constants
from juncture.spark.session.session import BATCH_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.in_turn


def test_steps_are_measured(spark: SparkSession) -> None:
    told: list[str] = []
    before = spark.conf.get(BATCH_BYTES)
    measured = measure_spark(spark, told.append, rows=1_000, rounds=1)
    assert told == ["round 1 of 1"]
    # Of so few rows, most steps drown in noise.
    assert {"direct_scan_ns", "stage_s"} <= set(measured) <= {each.name for each in fields(Constants)}
    assert min(measured.values()) > 0
    assert spark.conf.get(BATCH_BYTES) == before


def test_a_step_is_the_time_of_a_query_with_it_less_that_of_one_without() -> None:
    names = ("nothing", "stage", "scan", "shuffle", "sort", "to Python", "and back", "loop", "no loop")
    shortest = dict.fromkeys((*names, "to Python, by size", "bins", "no bins", "made", "collect", "direct scan"), 1.0)
    shortest |= {"to Python, by size": 2.4, "two stages": 0.5, "two stages, one with Python": 0.9}
    shortest |= {"stage": 1.5, "shuffle": 4.5, "to Python": 2.0, "and back": 1.9, "direct scan": 0.1, "loop": 11.0}
    assert _constants(shortest, 1_000_000, cores=2) == pytest.approx(
        {"direct_scan_ns": 100, "to_python_ns": 2_000, "row_size_ns": 800, "shuffle_ns": 6_000, "jvm_loop_pair_ns": 200}
        | {"stage_s": 0.25, "python_s": 0.4}
    )
