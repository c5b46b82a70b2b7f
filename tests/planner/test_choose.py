"""The choice of an algorithm: what is ruled out and why, and what is taken among the rest."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from juncture.errors import PlanError, SpecError
from juncture.planner.algorithm import PlanningInput
from juncture.planner.asof import ASOF
from juncture.planner.choose import choose
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spec.asof import Asof

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("value", pa.float64())])
MILLION = 1_000_000


def planning(
    *,
    left_rows: int | None = MILLION,
    right_rows: int | None = 10 * MILLION,
    hottest_key_share: float | None = 0.1,
    cores: int = 2,
    memory_bytes: int = 2_000_000_000,
    spec: dict[str, Any] | None = None,
    **changes: Any,
) -> PlanningInput:
    arguments: dict[str, Any] = {"on": "ts", "by": "key"} | (spec or {})
    sides = [
        SideStats(
            rows=rows, row_bytes=None if rows is None else 24, distinct_keys=10_000, hottest_key_share=hottest_key_share
        )
        for rows in (left_rows, right_rows)
    ]
    return PlanningInput(
        join=Asof(**arguments).resolve(SCHEMA, SCHEMA),
        engine=changes.pop("engine", "spark"),
        stats=Stats(left=sides[0], right=sides[1]),
        resources=Resources(cores=cores, memory_bytes=memory_bytes),
        **changes,
    )


REFUSED = [
    pytest.param(
        "broadcast", {"spec": {"how": "right"}}, "how='right' keeps unmatched right rows", id="broadcast-right"
    ),
    pytest.param(
        "broadcast_left", {"spec": {"how": "full"}}, "how='full' keeps unmatched right rows", id="broadcast_left-full"
    ),
    pytest.param("window", {"spec": {"how": "full"}}, "how='full' keeps unmatched right rows", id="window-full"),
    pytest.param("window", {"spec": {"matches": 2}}, "matches=2", id="window-matches"),
    pytest.param("window", {"spec": {"ties": "error"}}, "ties='error'", id="window-ties"),
    pytest.param("hash", {"spec": {"by": None}}, "no by column", id="hash-without-key"),
    pytest.param("broadcast", {"lazy": True}, "lazy=True forbids", id="broadcast-lazy"),
    pytest.param("range", {"lazy": True}, "lazy=True forbids", id="range-lazy"),
    pytest.param(
        "broadcast", {"right_rows": 1000 * MILLION}, "the limit for a copy in every task", id="broadcast-large"
    ),
    pytest.param(
        "broadcast_left", {"left_rows": 100 * MILLION}, "the limit for a copy in every task", id="broadcast_left-large"
    ),
    pytest.param("native", {}, "spark.sql.join.asofJoin.enabled", id="native-off"),
    pytest.param(
        "native", {"native": True, "spec": {"direction": "nearest"}}, "nearest returns wrong rows", id="native-nearest"
    ),
    pytest.param("native", {"native": True, "spec": {"how": "semi"}}, "inner and left", id="native-semi"),
]


@pytest.mark.parametrize(("algorithm", "changes", "reason"), REFUSED)
def test_what_cannot_serve_is_refused_with_its_reason(algorithm: str, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError) as error:
        choose(planning(**changes), algorithm)
    assert reason in str(error.value)
    assert f"algorithm={algorithm!r}" in str(error.value)


@pytest.mark.parametrize(("algorithm", "changes", "reason"), REFUSED)
def test_auto_never_takes_what_is_refused(algorithm: str, changes: dict[str, Any], reason: str) -> None:
    choice = choose(planning(**changes))
    assert choice.algorithm != algorithm
    refusal = next(option.excluded for option in choice.options if option.algorithm == algorithm)
    assert refusal is not None
    assert reason in refusal


@pytest.mark.parametrize(
    ("changes", "algorithm"),
    [
        pytest.param({"left_rows": 10_000, "right_rows": 100 * MILLION}, "broadcast_left", id="small-left"),
        pytest.param({"left_rows": 100 * MILLION, "right_rows": 10_000}, "broadcast", id="small-right"),
        pytest.param(
            {"left_rows": 100 * MILLION, "right_rows": 100 * MILLION, "hottest_key_share": 0.001, "cores": 64},
            "hash",
            id="many-keys",
        ),
        pytest.param(
            {"left_rows": 100 * MILLION, "right_rows": 100 * MILLION, "hottest_key_share": 0.9, "cores": 64},
            "range",
            id="hot-key",
        ),
        pytest.param(
            {"left_rows": 100 * MILLION, "right_rows": 100 * MILLION, "spec": {"by": None}, "cores": 64},
            "range",
            id="no-key",
        ),
        pytest.param(
            {"left_rows": None, "right_rows": None, "hottest_key_share": None, "lazy": True}, "hash", id="lazy"
        ),
    ],
)
def test_the_least_cost_is_taken(changes: dict[str, Any], algorithm: str) -> None:
    assert choose(planning(**changes)).algorithm == algorithm


def test_a_named_algorithm_is_taken_where_it_serves() -> None:
    choice = choose(planning(), "window")
    assert choice.algorithm == "window"
    assert choice.reason == "algorithm= names it"


def test_native_is_only_taken_by_name() -> None:
    assert choose(planning(native=True), "native").algorithm == "native"
    assert choose(planning(native=True)).algorithm != "native"


def test_nothing_serves() -> None:
    with pytest.raises(PlanError, match="No algorithm can run this join with these arguments"):
        choose(planning(lazy=True, spec={"by": None, "matches": 2}))


@pytest.mark.parametrize(
    ("engine", "algorithm", "error", "message"),
    [
        ("local", "hash", PlanError, "runs on Spark, but these inputs are joined in-process"),
        ("spark", "probe", PlanError, "runs in-process, but these inputs are joined on Spark"),
        ("spark", "brodcast", SpecError, "Did you mean 'broadcast'?"),
        ("local", "prob", SpecError, "Did you mean 'probe'?"),
    ],
)
def test_unknown_algorithms(engine: str, algorithm: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        choose(planning(engine=engine), algorithm)
    assert message in str(raised.value)


def test_every_algorithm_is_weighed() -> None:
    for engine, algorithms in ASOF.items():
        assert [option.algorithm for option in choose(planning(engine=engine)).options] == [
            each.name for each in algorithms
        ]
