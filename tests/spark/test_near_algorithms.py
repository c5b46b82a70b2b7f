"""Range, overlap and predicate joins through Spark itself, by every algorithm, on random tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import juncture as jn
from juncture.errors import PlanError, SchemaError
from near_strategies import NearExample, packed_near_examples
from support.engines import to_spark
from support.tables import difference

ALGORITHMS = [
    (kind, algorithm)
    for kind in ("range", "overlap", "where")
    for algorithm in ("broadcast", "broadcast_left", "range", "bucket", "nested", *(["sql"] if kind == "where" else []))
]
REFUSALS = (
    "keeps right rows that no left row matched",
    "asks what matches each left row in all",
    "no condition tells where rows have to lie",
    "it would have to make all matches",
    "SQL can add to at most",
    "have no common type in SQL",
    "nothing has to be equal",
    "rows have no limit on one side",
)


def check(spark, example: NearExample, algorithm: str) -> None:
    frames = [to_spark(spark, table) for table in (example.left, example.right)]
    try:
        plan = jn.plan(*frames, example.spec, algorithm=algorithm)
    except SchemaError:
        # A right row without a match has no place in a key column of another type.
        return
    except PlanError as error:
        assert any(text in str(error) for text in REFUSALS), error
        return
    problem = difference(plan.execute().toArrow(), example.defined_rows(), ordered=False)
    assert problem is None, f"{plan.details}\n{problem}"


@pytest.mark.parametrize(("kind", "algorithm"), ALGORITHMS)
@settings(settings.get_profile("spark"))
@given(data=st.data())
def test_random_tables(spark, kind, algorithm, data):
    check(spark, data.draw(packed_near_examples(kind)), algorithm)


@pytest.mark.parametrize("kind", ["range", "overlap"])
@pytest.mark.parametrize("algorithm", ["broadcast", "range"])
@settings(settings.get_profile("spark"))
@given(data=st.data())
def test_aggregates(spark, kind, algorithm, data):
    check(spark, data.draw(packed_near_examples(kind, agg=True)), algorithm)
