"""The example that the project started from, through the public functions, gives the table that it prints."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import juncture as jn
from support.engines import to_spark

FRAMES = pa.table(
    {
        "ts": [2, 5, 8],
        "robot_id": ["arm_001", "arm_001", "arm_002"],
        "frame_id": [1, 2, 3],
    }
)
TELEMETRY = pa.table(
    {
        "ts": [1, 4, 8],
        "robot_id": ["arm_001", "arm_001", "arm_002"],
        "joint_angle": [10.0, 20.0, 30.0],
        "gripper": ["open", "closed", "open"],
    }
)
PRINTED = {
    "ts": [2, 5, 8],
    "robot_id": ["arm_001", "arm_001", "arm_002"],
    "frame_id": [1, 2, 3],
    "joint_angle": [10.0, 20.0, 30.0],
    "gripper": ["open", "closed", "open"],
}
ARGUMENTS = {"on": "ts", "by": "robot_id", "direction": "backward"}


@pytest.mark.parametrize("algorithm", ["auto", "probe", "merge"])
def test_in_process(algorithm):
    result = jn.join_asof(FRAMES, TELEMETRY, **ARGUMENTS, algorithm=algorithm)
    assert isinstance(result, pa.Table)
    assert list(result.to_pydict().items()) == list(PRINTED.items())


@pytest.mark.one_in(2)
@pytest.mark.in_turn
@pytest.mark.parametrize("algorithm", ["auto", "broadcast", "broadcast_left", "hash", "range", "window"])
def test_on_spark(spark, algorithm):
    result = jn.join_asof(to_spark(spark, FRAMES), to_spark(spark, TELEMETRY), **ARGUMENTS, algorithm=algorithm)
    assert result.columns == list(PRINTED)
    assert result.orderBy("ts").toArrow().to_pydict() == PRINTED


@pytest.mark.in_turn
def test_left_comes_first_so_that_it_chains(spark):
    result = to_spark(spark, FRAMES).transform(jn.join_asof, to_spark(spark, TELEMETRY), **ARGUMENTS)
    assert result.orderBy("ts").toArrow().to_pydict() == PRINTED


def test_a_plan_of_the_same_spec():
    plan = jn.plan(FRAMES, TELEMETRY, jn.Asof(**ARGUMENTS))
    assert plan.execute().to_pydict() == PRINTED
    assert plan.algorithm in plan.explain()


def test_polars_users_get_polars_back():
    result = jn.join_asof(pl.from_arrow(FRAMES), TELEMETRY, **ARGUMENTS)
    assert isinstance(result, pl.DataFrame)
    assert result.to_dict(as_series=False) == PRINTED


def test_pandas_users_get_pandas_back():
    result = jn.join_asof(FRAMES.to_pandas(), TELEMETRY.to_pandas(), **ARGUMENTS)
    assert isinstance(result, pd.DataFrame)
    assert result.to_dict(orient="list") == PRINTED


def test_anything_that_speaks_arrow():
    class Speaks:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return TELEMETRY.__arrow_c_stream__(requested_schema)

    assert jn.join_asof(FRAMES, Speaks(), **ARGUMENTS).to_pydict() == PRINTED
    assert jn.join_asof(FRAMES, TELEMETRY.to_batches(), **ARGUMENTS).to_pydict() == PRINTED
    assert jn.join_asof(FRAMES, TELEMETRY.to_reader(), **ARGUMENTS).to_pydict() == PRINTED
