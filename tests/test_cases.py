"""The case files under every algorithm of every engine."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest

from juncture.errors import PlanError
from support.cases import Case, read_cases
from support.engines import LOCAL, SPARK, fits_spark, refuses, run_in_process, run_on_spark
from support.tables import difference

CASES = read_cases("asof")
SPARK_CASES = [
    case for case in CASES if fits_spark(case.left.schema) and fits_spark(case.right.schema) and not case.no_spark
]


def expected_error(case: Case, algorithm: str) -> type[Exception] | None:
    join = case.spec.resolve(case.left.schema, case.right.schema)
    return PlanError if refuses(algorithm, join) else case.error


@pytest.mark.parametrize("algorithm", LOCAL)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_process(case: Case, algorithm: str):
    error = expected_error(case, algorithm)
    if error is not None:
        with pytest.raises(error):
            run_in_process(case.spec, case.left, case.right, algorithm)
        return
    assert difference(run_in_process(case.spec, case.left, case.right, algorithm), case.expected, ordered=True) is None


Answers = dict[tuple[str, str], Future[pa.Table]]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, spark) -> Answers:
    """Start all the joins that will be asked for, several at once: most of a small Spark job is waiting."""
    pool = ThreadPoolExecutor(max_workers=4)
    request.addfinalizer(lambda: pool.shutdown(cancel_futures=True))
    wanted = [item.callspec.params for item in request.session.items if "answers" in getattr(item, "fixturenames", ())]
    return {
        (params["case"].name, params["algorithm"]): pool.submit(
            run_on_spark, spark, params["case"].spec, params["case"].left, params["case"].right, params["algorithm"]
        )
        for params in wanted
    }


@pytest.mark.parametrize("algorithm", SPARK)
@pytest.mark.parametrize("case", SPARK_CASES, ids=str)
def test_on_spark(case: Case, algorithm: str, answers: Answers):
    answer = answers[case.name, algorithm]
    error = expected_error(case, algorithm)
    if error is not None:
        with pytest.raises(error):
            answer.result()
        return
    assert difference(answer.result(), case.expected, ordered=False) is None
