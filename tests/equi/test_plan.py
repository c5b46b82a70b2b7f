"""The choice among the in-process algorithms for equality joins."""

from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.planner.algorithm import PlanningInput
from juncture.planner.choose import choose
from juncture.planner.constants import Constants
from juncture.planner.statistics import Resources, SideStats, Stats
from juncture.spec.equi import Equi

MILLION = 1_000_000
SCHEMA = pa.schema([("text", pa.string()), ("number", pa.int64()), ("day", pa.date32())])
CONSTANTS = Constants(
    equi_probe_ns=100,
    hash_build_ns=50,
    partition_ns=20,
    merge_left_ns=100,
    merge_right_ns=150,
    restore_ns=100,
    spill_ns=4,
)


def planning(left_rows: int | None, right_rows: int | None, *, on="text", memory_bytes=10**10, **spec) -> PlanningInput:
    sides = [SideStats(rows=rows, row_bytes=None if rows is None else 32) for rows in (left_rows, right_rows)]
    return PlanningInput(
        join=Equi(on=on, **spec).resolve(SCHEMA, SCHEMA),
        engine="local",
        stats=Stats(left=sides[0], right=sides[1]),
        resources=Resources(cores=2, memory_bytes=memory_bytes, constants=CONSTANTS),
    )


@pytest.mark.parametrize(
    ("asked", "algorithm"),
    [
        pytest.param(planning(10_000, 10 * MILLION), "hash", id="small-left"),
        pytest.param(planning(10 * MILLION, 10_000), "hash", id="small-right"),
        pytest.param(planning(MILLION, MILLION), "parallel_hash", id="two-of-a-size"),
        pytest.param(planning(1_000, 1_000), "hash", id="few-rows"),
        pytest.param(planning(MILLION, MILLION, on="number"), "sort_merge", id="numbers"),
        pytest.param(planning(MILLION, MILLION, on="day"), "sort_merge", id="dates"),
        pytest.param(planning(MILLION, MILLION, on="number", nulls_equal=True), "parallel_hash", id="equal-nulls"),
        pytest.param(planning(MILLION, MILLION, on=["number", "day"]), "parallel_hash", id="several-keys"),
        pytest.param(planning(10 * MILLION, 10 * MILLION, memory_bytes=10**8), "grace", id="little-memory"),
        pytest.param(planning(MILLION, None), "grace", id="right-unknown"),
    ],
)
def test_the_least_cost_is_taken(asked: PlanningInput, algorithm: str) -> None:
    assert choose(asked).algorithm == algorithm


def costs(asked: PlanningInput) -> dict[str, float | None]:
    return {option.algorithm: option.cost_s for option in choose(asked).options}


def test_a_formula_adds_up_the_steps() -> None:
    found = costs(planning(MILLION, 2 * MILLION, on="number"))
    assert found == {
        # Two cores read and find together; one of them alone adds keys.
        "hash": pytest.approx(3 * 0.100 / 2 + 0.050),
        "parallel_hash": pytest.approx((3 * 0.120 + 0.050 + 0.001) / 2),
        "grace": pytest.approx(3 * 0.100 / 2 + 0.050 + 2 * 0.100 / 2),
        "sort_merge": pytest.approx((0.100 + 2 * 0.150) / 2),
        "external_sort_merge": pytest.approx((0.100 + 2 * 0.150 + 5 * 0.100) / 2),
    }


def test_what_does_not_fit_is_written() -> None:
    fits, spills = (costs(planning(MILLION, MILLION, memory_bytes=size))["grace"] for size in (10**9, 10**8))
    assert fits is not None
    # Two million rows of 32 bytes, and 48 to hold each.
    assert spills == pytest.approx(fits + 2 * 80 * 4 / 1_000 / 2)
