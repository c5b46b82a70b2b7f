"""Joins in which hot keys are divided, on Spark: every row once, whichever keys and sides."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.planner.statistics import Resources
from juncture.spark.equi.plan import equi_pairs
from juncture.spark.equi.salt import Hint, HotKey, SampledKeys, choose_hot_keys, copied_rows, join_salted
from juncture.spark.input.sides import FrameSide
from juncture.spark.sql import Pairs, key_hash
from support.engines import to_spark
from support.kinds import defined_rows
from support.tables import difference

HOWS = ["inner", "left", "right", "full", "semi", "anti"]


def table_of(seed: int, rows: int) -> pa.Table:
    """Return rows of few keys, some null, of which the first has many rows, and some that are the same."""
    chance = random.Random(seed)
    keys = [chance.choice(["a", "a", "a", "b", "b", "c", f"{seed}", None]) for _ in range(rows)]
    return pa.table({"k": keys, "v": [chance.randrange(4) for _ in range(rows)], "side": [seed] * rows})


LEFT, RIGHT = table_of(1, 60), table_of(2, 40)


def pairs_of(spark, spec: jn.Equi) -> Pairs:
    sides = FrameSide.of(to_spark(spark, LEFT), "left"), FrameSide.of(to_spark(spark, RIGHT), "right")
    return equi_pairs(spec.resolve(sides[0].schema, sides[1].schema), *sides)


@pytest.fixture(scope="module")
def hashes(spark) -> dict[str | None, int]:
    """Return the hashes of keys, as Spark makes them."""
    keys = pa.table({"k": ["a", "b", "1", "2", None]})
    rows = to_spark(spark, keys).select("k", key_hash(["k"]).alias("hash")).toArrow()
    return dict(zip(rows["k"].to_pylist(), rows["hash"].to_pylist(), strict=True))


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("how", "where"),
    [
        *((how, None) for how in HOWS),
        *(
            # Whoever keeps rows of one side keeps those of the other alike.
            pytest.param(how, "l.v < r.v", marks=pytest.mark.nightly if how in ("inner", "right", "semi") else [])
            for how in HOWS
        ),
    ],
)
def test_divided_keys_lose_and_repeat_no_row(spark, hashes, how, where):
    nulls_equal = how in ("left", "right", "anti")
    spec = jn.Equi(on="k", how=how, where=where, nulls_equal=nulls_equal)
    hot = (
        HotKey(hashes["a"], "left", 3),
        HotKey(hashes["b"], "right", 2),
        HotKey(hashes["1"], "right", 2),
        HotKey(hashes["2"], "left", 2),
        HotKey(hashes[None], "left" if how == "right" else "right", 2),
    )
    answer = join_salted(pairs_of(spark, spec), how, hot, Hint("shuffle_hash" if where else "merge"))
    assert difference(answer.toArrow(), defined_rows(spec, LEFT, RIGHT), ordered=False) is None


def sampled(counts: dict[int, int], times: float = 1.0) -> SampledKeys:
    hashes = np.repeat(np.array(list(counts), np.int64), list(counts.values()))
    return SampledKeys(hashes, len(hashes) * times)


EVEN, OTHERS = dict.fromkeys(range(10, 1010), 10), dict.fromkeys(range(2010, 3010), 10)


@pytest.mark.parametrize(
    ("left", "right", "times", "hot"),
    [
        pytest.param(EVEN, OTHERS, 1_000, {}, id="even"),
        pytest.param({1: 10_000, **EVEN}, OTHERS, 1_000, {1: "left"}, id="left"),
        pytest.param(EVEN, {1: 10_000, 2: 9_000, **OTHERS}, 1_000, {1: "right", 2: "right"}, id="two on the right"),
        pytest.param({1: 10_000, **EVEN}, OTHERS, 1, {}, id="few rows"),
        pytest.param({1: 300, **EVEN}, {1: 299, **OTHERS}, 1_000, {1: "left"}, id="few rows, many pairs"),
        pytest.param({1: 40}, {1: 9}, 1_000_000, {}, id="too few to tell"),
        pytest.param({}, OTHERS, 1_000, {}, id="an empty side"),
    ],
)
def test_hot_is_what_keeps_one_task_busy(left, right, times, hot):
    found = choose_hot_keys(sampled(left, times), sampled(right, times), Resources(cores=4, memory_bytes=1 << 30))
    assert {key.key: key.divided for key in found} == hot


def test_copies_are_the_rows_of_the_other_side():
    hot = (HotKey(1, "left", 4), HotKey(2, "right", 8))
    left, right = sampled({1: 500, 2: 3}, 2.0), sampled({1: 5, 2: 700}, 2.0)
    assert copied_rows(hot, "left", left) == 3 * 2 * 7
    assert copied_rows(hot, "right", right) == 5 * 2 * 3
