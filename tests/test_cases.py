"""The case files under every algorithm of every engine."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.spec.asof import Asof
from support.cases import Case, check_case, read_cases
from support.engines import (
    LOCAL,
    LOCAL_NEAR,
    SPARK,
    SPARK_NEAR,
    algorithms_on_spark,
    fits_spark,
    in_tasks,
    join_in_process,
    run_in_process,
    run_on_spark,
    to_spark,
)
from support.tables import difference

CASES = read_cases("asof")
SPARK_CASES = [
    (kind, case)
    for kind in ("asof", *SPARK_NEAR)
    for case in read_cases(kind)
    # What the schemas tell is the same on either engine.
    if case.resolved and fits_spark(case.left.schema) and fits_spark(case.right.schema) and not case.no_spark
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a case on Spark under each algorithm that serves; or every eighth one, under one that is Spark's own SQL.

    What runs in tasks meets all cases without Spark, and random tables under every algorithm with it.
    """
    if metafunc.function is not test_on_spark:
        return
    pairs = []
    for number, (kind, case) in enumerate(SPARK_CASES):
        able = algorithms_on_spark(case.resolved)
        if not metafunc.config.getoption("--all"):
            in_sql = sorted(set(able) - set(in_tasks(kind, able)))
            able = [in_sql[number // 8 % len(in_sql)]] if in_sql and number % 8 == 1 else []
        pairs += [(case, algorithm) for algorithm in able]
    metafunc.parametrize(("case", "algorithm"), pairs, ids=[f"{case}, {algorithm}" for case, algorithm in pairs])


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_process(case: Case, algorithm: str):
    check_case(case, partial(run_in_process, algorithm=algorithm))


NEAR = [
    (case, algorithm)
    for kind, algorithms in LOCAL_NEAR.items()
    for case in read_cases(kind)
    for algorithm in (*algorithms, *(() if kind == "equi" else ("external_merge",)))
    if not getattr(case.spec, "agg", None)
]


@pytest.mark.parametrize(("case", "algorithm"), NEAR, ids=str)
def test_range_overlap_and_where_in_process(case: Case, algorithm: str):
    check_case(case, partial(join_in_process, algorithm=algorithm))


@pytest.mark.in_turn
def test_on_spark(case: Case, algorithm: str, spark):
    if case.error is None:
        answer = run_on_spark(spark, case.spec, case.left, case.right, algorithm)
        assert difference(answer, case.expected, ordered=False) is None
        return
    with pytest.raises(Exception) as raised:
        run_on_spark(spark, case.spec, case.left, case.right, algorithm)
    # What a task raises arrives within an error of Spark's own.
    named = f"juncture.errors.{case.error.__name__}: "
    assert isinstance(raised.value, case.error) or named in str(raised.value), repr(raised.value)


REFUSED = [
    *(
        (algorithm, {"how": how})
        for algorithm in SPARK
        for how in ("right", "full")
        if algorithm not in ("hash", "range")
    ),
    ("window", {"matches": 2}),
    ("window", {"ties": "error"}),
    ("hash", {"by": None}),
]


@pytest.mark.in_turn
@pytest.mark.parametrize(("algorithm", "arguments"), REFUSED)
def test_what_an_algorithm_cannot_do_it_refuses_with_a_reason(spark, algorithm, arguments):
    frame = to_spark(spark, pa.table({"ts": [1, 2], "k": ["a", "b"]}))
    spec = Asof(**({"on": "ts", "by": "k"} | arguments))
    with pytest.raises(
        PlanError, match=rf"algorithm='{algorithm}' cannot run this join: .* Pass algorithm='auto' to use another one\."
    ):
        jn.plan(frame, frame, spec, algorithm=algorithm)
