"""What a session says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from juncture.spark.session import session as sessions


def test_settings_and_plans_say_the_same_cores(spark):
    cores = sessions._cores_by_settings(spark)
    assert cores == sessions._cores_by_plan(spark) == sessions.resources(spark).cores == 2
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "7")
    try:
        assert (
            sessions._cores_by_settings(spark) == sessions._cores_by_plan(spark) == sessions.resources(spark).cores == 7
        )
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "local[4]"}, 4),
        ({"spark.master": "local[4, 2]"}, 4),
        ({"spark.master": "local[4]", "spark.default.parallelism": "9"}, 9),
        ({"spark.master": "local[*]"}, None),
        ({"spark.master": "local"}, None),
        ({"spark.master": "local-cluster[2,1,1024]"}, None),
        ({"spark.master": "spark://host:7077"}, None),
        ({}, None),
    ],
)
def test_cores_are_asked_for_where_settings_do_not_say(settings, cores):
    session = SimpleNamespace(conf=SimpleNamespace(get=settings.get))
    assert sessions._cores_by_settings(session) == cores


@pytest.mark.parametrize(
    ("value", "limits"),
    [("268435456", True), ("64m", True), ("2147483647", False), ("2147483647b", False), (None, False)],
)
def test_spark_looks_after_the_bytes_of_batches_unless_their_limit_is_the_greatest(value, limits):
    session = SimpleNamespace(conf=SimpleNamespace(get={sessions.BATCH_BYTES: value}.get))
    assert sessions.limits_batch_bytes(session) is limits
