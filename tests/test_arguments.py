"""Arguments as callers have them: NumPy's and pandas' values, other libraries' words, and what nobody could mean."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import juncture as jn
from support.engines import to_spark
from support.tables import read_table

LEFT = read_table("ts: int64 | until: int64 | k: string | a: int64\n1 | 3 | a | 1\n5 | 7 | b | 2")
RIGHT = read_table(
    "ts: int64 | until: int64 | k: string | v: float64\n1 | 2 | a | 1.0\n4 | 6 | b | 2.0\n9 | 9 | b | 3.0"
)
PAIR = {"left_interval": ("ts", "until"), "right_interval": ("ts", "until")}
JOINS: dict[Callable[..., Any], dict[str, Any]] = {
    jn.join_asof: {"on": "ts"},
    jn.join_range: {"on": "ts", "lower": 0},
    jn.join_overlap: PAIR,
    jn.join_where: {"predicate": "l.ts = r.ts"},
    jn.join: {"on": "ts"},
}


def rows(answer: Any) -> list[dict[str, Any]]:
    table = answer if isinstance(answer, pa.Table) else answer.toArrow()
    return sorted(table.to_pylist(), key=repr)


NUMPY = [
    (jn.join_asof, {"matches": np.int64(2), "tolerance": np.float32(4.5)}, {"matches": 2, "tolerance": 4.5}),
    (jn.join_asof, {"tolerance": np.uint8(1)}, {"tolerance": 1}),
    (jn.join_asof, {"tolerance": Fraction(1, 2)}, {"tolerance": 0.5}),
    (jn.join_asof, {"allow_exact_matches": np.bool_(False)}, {"allow_exact_matches": False}),
    (jn.join_asof, {"coalesce": np.bool_(False)}, {"coalesce": False}),
    (jn.join_range, {"lower": np.int8(-3), "upper": np.float64(0.5)}, {"lower": -3, "upper": 0.5}),
    (jn.join_where, {"allow_cross": np.bool_(True)}, {"allow_cross": True}),
    (jn.join, {"nulls_equal": np.bool_(True), "lazy": np.bool_(True)}, {"nulls_equal": True}),
    (
        jn.join,
        {"stats": jn.Stats(right=jn.SideStats(rows=np.int32(3), hottest_key_share=np.float32(0.5)))},
        {"stats": jn.Stats(right=jn.SideStats(rows=3, hottest_key_share=0.5))},
    ),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize(("join", "given", "plain"), NUMPY)
def test_values_of_numpy_are_numbers_and_truth_values(spark_or_none, join, given, plain):
    sides = [to_spark(spark_or_none, side) if spark_or_none else side for side in (LEFT, RIGHT)]
    wanted = rows(join(LEFT, RIGHT, **JOINS[join] | plain))
    assert rows(join(*sides, **JOINS[join] | given)) == wanted


def test_memory_is_a_number_of_numpy():
    assert jn.join(LEFT, RIGHT, on="ts", memory=np.int64(10**9)).equals(jn.join(LEFT, RIGHT, on="ts"))


MOMENTS = pa.table({"ts": pa.array([0, 10_000], pa.timestamp("ns"))})


@pytest.mark.in_turn
@pytest.mark.parametrize("length", [pd.Timedelta, np.timedelta64])
def test_lengths_of_time_are_exact_to_the_nanosecond(length):
    later = pa.table({"ts": pa.array([1_400, 8_600], pa.timestamp("ns")), "v": [1, 2]})
    near = {"on": "ts", "direction": "nearest", "coalesce": False}
    assert jn.join_asof(MOMENTS, later, tolerance=length(1_400, "ns"), **near)["v"].to_pylist() == [1, 2]
    assert jn.join_asof(MOMENTS, later, tolerance=length(1_399, "ns"), **near)["v"].to_pylist() == [None, None]
    window = {"lower": length(-1, "ns"), "upper": length(1_399, "ns")}
    assert jn.join_range(MOMENTS, later, on="ts", **window).num_rows == 0
    assert jn.join_range(MOMENTS, later, on="ts", lower=length(1_400, "ns"))["v"].to_pylist() == [1, 2]
    assert jn.join_range(MOMENTS, MOMENTS, on="ts", upper=length(-1, "ns")).num_rows == 1


@pytest.mark.in_turn
@pytest.mark.parametrize("length", [pd.Timedelta, np.timedelta64])
def test_a_length_finer_than_what_spark_has_is_not_rounded_up(spark_or_none, length):
    left, right = (pa.table({"ts": pa.array([at], pa.timestamp("us"))}) for at in (10, 9))
    sides = [to_spark(spark_or_none, side) if spark_or_none else side for side in (left, right)]
    for lower, count in ((-1_000, 1), (-999, 0), (-1, 0)):
        answer = jn.join_range(*sides, on="ts", lower=length(lower, "ns"), upper=length(0, "ns"))
        assert len(rows(answer)) == count
    spec = jn.Asof(on="ts", tolerance=length(1_500, "ns"))
    assert jn.Asof.from_dict(spec.to_dict()) == jn.Asof(on="ts", tolerance="1us500ns")


def test_bounds_take_values_of_numpy_and_pandas():
    def left(low: Any, high: Any, predicate: str = "l.a < r.b") -> str:
        return repr(jn.bounds(predicate, l={"a": (low, high)}, r={"b": (low, high)}).l["a"])

    assert left(np.int8(1), np.int64(9)) == left(1, 9)
    assert left(np.float32(0.1), np.float64(9)) == left(0.1, 9.0)
    assert left(np.datetime64("2024-01-01"), np.datetime64("2024-01-03")) == "[2024-01-01, 2024-01-02]"
    moments = [pd.Timestamp("2024-01-01 00:00:00.000000001"), pd.Timestamp("2024-01-01 00:00:00.000000009")]
    wanted = "[2024-01-01 00:00:00.000000001, 2024-01-01 00:00:00.000000008]"
    assert left(*moments) == left(*(moment.to_numpy() for moment in moments)) == wanted
    assert left(moments[0], datetime(2024, 1, 2)) == wanted.split(", ")[0] + ", 2024-01-01 23:59:59.999999999]"
    lengths = [pd.Timedelta(1, "ns"), pd.Timedelta(9, "ns")]
    assert (
        left(*lengths) == left(*(each.to_numpy() for each in lengths)) == "[0.000000001 seconds, 0.000000008 seconds]"
    )
    flag = jn.bounds("l.f = r.f", l={"f": np.bool_(True)}).l["f"]
    assert (flag.lower, flag.upper) == (True, True)
    for nothing in (pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), float("nan"), np.float32("nan")):
        with pytest.raises(jn.SpecError, match=r"Na[NT]"):
            jn.bounds("l.a < r.b", l={"a": (nothing, None)})


WORDS = [
    (jn.join, {"how": "outer"}, "Did you mean 'full'?"),
    (jn.join, {"how": "full_outer"}, "how='full'"),
    (jn.join_asof, {"how": "left_outer"}, "how='left'"),
    (jn.join_range, {"how": "leftouter"}, "how='left'"),
    (jn.join_overlap, {"how": "left_semi"}, "how='semi'"),
    (jn.join_where, {"how": "leftanti"}, "how='anti'"),
    (jn.join, {"how": "RIGHT OUTER"}, "how='right'"),
    (jn.join, {"how": "right_semi"}, "Swap the two tables"),
    (jn.join, {"how": "cross"}, "join_where(left, right, 'TRUE', allow_cross=True)"),
    (jn.join, {"how": "asof"}, "join_asof(…)"),
    (jn.join, {"how": "Left"}, "Did you mean 'left'?"),
    (jn.join_asof, {"direction": "next"}, "direction='forward'"),
    (jn.join_range, {"closed": "neither"}, "closed='none'"),
    (jn.join_asof, {"ties": "any"}, "ties='last'"),
    (jn.join_asof, {"suffixes": ("_x", "_y")}, "suffix="),
    (jn.join, {"left_index": True}, "reset_index()"),
    (jn.join, {"indicator": True}, "constant column"),
    (jn.join, {"validate": "1:1"}, "duplicate keys"),
    (jn.join_asof, {"validate": "m:1"}, "ties='error'"),
    (jn.join_asof, {"by_left": "k", "by_right": "k"}, "left_by="),
    (jn.join_asof, {"check_sortedness": False}, "need not be sorted"),
    (jn.join_asof, {"strategy": "backward"}, "direction="),
    (jn.join, {"join_nulls": True}, "nulls_equal="),
    (jn.join_range, {"nulls_equal": True}, "l.a <=> r.a"),
    (jn.join_overlap, {"coalesce": True}, "appear once"),
    (jn.join, {"by": "k"}, "on="),
    (jn.join_where, {"on": "k"}, "by="),
    (jn.join_overlap, {"left_on": "ts"}, "left_interval="),
    (jn.join_range, {"tolerance": 5}, "lower='-5m'"),
    (jn.join, {"tolerance": 5}, "join_asof"),
    (jn.join_range, {"allow_exact_matches": False}, "closed="),
    (jn.join, {"condition": "l.a > 1"}, "where="),
    (jn.join_where, {"condition": "l.a > 1"}, "predicate="),
    (jn.join_range, {"predicate": "l.a > 1"}, "join_where(left, right"),
    (jn.join, {"join_type": "left outer"}, "how="),
    (jn.join, {"right_keys": "k"}, "right_on="),
    (jn.join_asof, {"leftAsOfColumn": "ts"}, "left_on="),
    (jn.join_asof, {"tolerence": 5}, "Did you mean 'tolerance'?"),
    (jn.join_range, {"algoritm": "sorted"}, "Did you mean 'algorithm'?"),
    (jn.join_asof, {"left_order": jn.Order("ts")}, "jn.stream(left, right, spec"),
    (jn.join_where, {"right_order": jn.Order("ts")}, "jn.stream(left, right, spec"),
    (jn.join, {"changes": True}, "jn.changes(left, right, spec)"),
    (jn.join_overlap, {"unmatched_deletes": "count"}, "jn.changes(left, right, spec)"),
]  # fmt: skip


@pytest.mark.parametrize(("join", "arguments", "said"), WORDS)
def test_words_of_other_libraries_get_a_pointer(join, arguments, said):
    with pytest.raises(jn.SpecError) as raised:
        join(LEFT, RIGHT, **JOINS[join] | arguments)
    message, (name, value) = str(raised.value), next(iter(arguments.items()))
    assert f"{name}={value!r}" in message
    assert said in message


def test_plans_refuse_unknown_arguments():
    with pytest.raises(jn.SpecError, match=r"plan\(\) has no argument algoritm='sorted'.*Did you mean 'algorithm'\?"):
        jn.plan(LEFT, RIGHT, jn.Equi(on="ts"), algoritm="sorted")


class Endless:
    """What prints as more than a screen."""

    def __repr__(self) -> str:
        return "Endless(" + "x" * 100_000 + "\n" * 100 + ")"


ODD = [
    5, -1, 1.5, None, True, "zzz", "", [], [5], ["zzz"], {}, {"v": 5}, {"v": "medain"}, object(), float("nan"), 1j, ...,
    np.array([1, 2]), np.array(["a", "b"]), pd.Series([1, 2]), pd.DataFrame({"a": range(99)}), pd.NaT, len, int, b"x",
    np.timedelta64(1), np.timedelta64("NaT"), np.timedelta64(1, "M"), Fraction(1, 3), 10**30, ("ts", "ts"), {"ts"},
    "z" * 100_000, [f"c{number}" for number in range(10_000)], "9" * 5_000, "9" * 5_000 + "m",
    "9" * 5_000 + "GB", Endless(),
]  # fmt: skip
ARGUMENTS = [
    (join, name) for join in JOINS for name in [*list(signature(join).parameters)[:-1], *jn.Execution.__annotations__]
]


@pytest.mark.parametrize(("join", "name"), ARGUMENTS)
def test_no_value_of_any_argument_gives_another_error_than_ours_or_a_long_one(join, name):
    """Each message is about the argument, fits on a screen and lists what is known no more than once."""
    refused = 0
    for value in ODD:
        arguments = JOINS[join] | {"left": LEFT, "right": RIGHT}
        side, _, role = name.partition("_")
        if side in ("left", "right") and role in ("on", "by"):
            arguments.pop("on", None)
            arguments[f"{'right' if side == 'left' else 'left'}_{role}"] = "ts"
        try:
            join(**arguments | {name: value})
        except jn.JunctureError as error:
            message = str(error)
            refused += 1
            assert len(message) <= 1_700
            assert message.count("\n") <= 21
            assert not ("Expected one of" in message and "There are:" in message)
    assert refused
