"""All joins but as-of joins through Spark itself, by every algorithm, on random tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import NearExample, packed_near_examples
from support.engines import SPARK_NEAR, algorithms_on_spark, to_spark
from support.tables import difference

ALGORITHMS = [(kind, algorithm) for kind, algorithms in SPARK_NEAR.items() for algorithm in algorithms]


def able_examples(kind: str, algorithm: str, *, agg: bool = False) -> st.SearchStrategy[NearExample]:
    """Return joins that an algorithm must be able to run."""
    examples = packed_near_examples(kind, agg=agg)
    return examples.filter(lambda example: algorithm in algorithms_on_spark(example.resolve()))


def check(spark, example: NearExample, algorithm: str) -> None:
    frames = [to_spark(spark, table) for table in (example.left, example.right)]
    plan = jn.plan(*frames, example.spec, algorithm=algorithm)
    problem = difference(plan.execute().toArrow(), example.defined_rows(), ordered=False)
    assert problem is None, f"{plan.details}\n{problem}"


@pytest.mark.in_turn
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "algorithm"), ALGORITHMS)
@settings(settings.get_profile("spark"))
@given(data=st.data())
def test_random_tables(spark, kind, algorithm, data):
    check(spark, data.draw(able_examples(kind, algorithm)), algorithm)


@pytest.mark.in_turn
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["range", "overlap", "where", "equi"])
@pytest.mark.parametrize("algorithm", ["broadcast", "range"])
@settings(settings.get_profile("spark"))
@given(data=st.data())
def test_aggregates(spark, kind, algorithm, data):
    check(spark, data.draw(able_examples(kind, algorithm, agg=True)), algorithm)
