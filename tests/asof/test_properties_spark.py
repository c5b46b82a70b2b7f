"""Every algorithm on Spark gives the rows of the reference, whatever the partitions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from juncture import testing as reference
from juncture.errors import DataError, PlanError
from strategies import Example, examples, packed_examples
from support.engines import SPARK, refuses, to_spark
from support.inputs import pass_as
from support.tables import difference, write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.in_turn

SEVERAL = settings.get_profile("spark")
FEW = settings(SEVERAL, max_examples=SEVERAL.max_examples // 2)


def check(example: Example, left: Any, right: Any, session: SparkSession | None = None) -> None:
    """Run all algorithms on the tables of an example, passed in some form, and compare with the reference."""
    try:
        expected = reference.asof_join(example.resolve(), example.left, example.right)
    except DataError:
        expected = None

    def run(algorithm: str) -> str | None:
        try:
            answer = jn.plan(left, right, example.spec, algorithm=algorithm, spark=session).execute().toArrow()
        except PlanError as error:
            return None if refuses(algorithm, example.resolve()) else f"it refused: {error}"
        except Exception as error:
            return None if expected is None and "juncture.errors.DataError: " in str(error) else f"it failed: {error!r}"
        if refuses(algorithm, example.resolve()):
            return "it did not refuse"
        if expected is None:
            return "it did not raise DataError"
        return problem(example, answer, expected)

    problems = {algorithm: run(algorithm) for algorithm in SPARK}
    assert not any(problems.values()), "\n\n".join(f"{name}: {what}" for name, what in problems.items() if what)


def frames_of(spark: SparkSession, example: Example, partitions: int) -> list[DataFrame]:
    return [to_spark(spark, table).repartition(partitions) for table in (example.left, example.right)]


def problem(example: Example, answer: pa.Table, expected: pa.Table) -> str | None:
    """Say how an answer is wrong, in the first case that is."""
    whole = difference(answer, expected, ordered=False)
    if whole is None or "case" not in example.left.column_names:
        return whole
    for case in range(1_000):
        parts = [
            table.filter(pc.equal(table["case"], case)) for table in (answer, expected, example.left, example.right)
        ]
        what = difference(parts[0], parts[1], ordered=False)
        if what is not None:
            return f"{example.spec}\n{write_table(parts[2])}\n\n{write_table(parts[3])}\n\n{what}"
    return whole


@SEVERAL
@given(example=packed_examples(more=True), partitions=st.integers(1, 4))
def test_many_keys(spark, example, partitions):
    check(example, *frames_of(spark, example, partitions))


@FEW
@given(example=packed_examples(more=True, keyed=False), partitions=st.integers(1, 4))
def test_no_key(spark, example, partitions):
    check(example, *frames_of(spark, example, partitions))


@FEW
@given(example=examples(more=True, spark=True), partitions=st.integers(1, 3))
def test_few_rows(spark, example, partitions):
    check(example, *frames_of(spark, example, partitions))


@FEW
@given(
    example=packed_examples(more=True),
    form=st.sampled_from(["file", "folder", "glob", "paths"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_files_that_tasks_read(spark, example, form, seed, tmp_path_factory):
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("inputs")
    tables = {"left": example.left, "right": example.right}
    paths = [pass_as(form, table, folder / side, chance, rows=100) for side, table in tables.items()]
    check(example, *paths, session=spark)
