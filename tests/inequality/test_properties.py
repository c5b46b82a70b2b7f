"""Range, overlap and predicate joins in-process give what the reference gives, under every algorithm, in its order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inequality.strategies import NearExample, near_examples
from juncture.errors import DataError
from support.engines import LOCAL_NEAR, join_in_process
from support.tables import difference

PAIRS = [(kind, algorithm) for kind, algorithms in LOCAL_NEAR.items() for algorithm in algorithms]


def check(example: NearExample, algorithm: str) -> None:
    """Compare an algorithm with the reference, which also raises for values that have no place in the common type."""
    try:
        expected = example.defined_rows()
    except DataError:
        with pytest.raises(DataError):
            join_in_process(example.spec, example.left, example.right, algorithm)
        return
    answer = join_in_process(example.spec, example.left, example.right, algorithm)
    problem = difference(answer, expected, ordered=True)
    assert problem is None, problem


@pytest.mark.parametrize(("kind", "algorithm"), PAIRS)
@given(data=st.data())
def test_tables(kind, algorithm, data):
    check(data.draw(near_examples(kind)), algorithm)


@pytest.mark.parametrize(("kind", "algorithm"), PAIRS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_the_right_rows_does_not_matter(kind, algorithm, data, seed):
    example = data.draw(near_examples(kind))
    rows = list(range(example.right.num_rows))
    random.Random(seed).shuffle(rows)
    # Row by row, since Arrow cannot take rows of all types.
    shuffled = pa.concat_tables([example.right.slice(0, 0), *(example.right.slice(row, 1) for row in rows)])
    try:
        answers = [join_in_process(example.spec, example.left, right, algorithm) for right in (example.right, shuffled)]
    except DataError:
        with pytest.raises(DataError):
            example.defined_rows()
        return
    assert difference(answers[1], answers[0], ordered=False) is None
