"""Exact placement of packets, in versions of Spark that cannot send rows to a partition by its number as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.spark.exchange import hashed_numbers, placeholders, shuffled, shuffled_by_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = (1, 2, 3, 8, 200, 1_000, 4_096)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_each_number_is_the_least_that_spark_hashes_to_its_partition(spark: SparkSession, partitions: int):
    numbers = hashed_numbers(partitions)
    hashed = F.expr(f"pmod(hash(cast(id as int)), {partitions})").alias("target")
    rows = (
        spark.range(0, int(numbers.max()) + 1, 1, 1).select("id", hashed).groupBy("target").agg(F.min("id")).collect()
    )
    assert dict(map(tuple, rows)) == dict(enumerate(numbers.tolist()))


@pytest.mark.parametrize("shuffle", [shuffled, shuffled_by_hash])
@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_a_packet_reaches_the_partition_of_its_number(spark: SparkSession, shuffle, partitions: int):
    sent = placeholders(spark, partitions)
    arrived = shuffle(sent.union(sent), partitions).select("target", F.spark_partition_id()).collect()
    assert sorted(map(tuple, arrived)) == sorted((number, number) for number in [*range(partitions)] * 2)


def test_numbers_are_found_for_many_partitions():
    numbers = hashed_numbers(20_000)
    assert np.unique(numbers).size == numbers.size
    assert numbers.min() >= 0
