"""Regular spines, and values on lines between rows: in-process, in every library, and on Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from juncture.errors import DataError
from support.engines import to_spark
from support.tables import difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = timedelta(hours=1)
START = datetime(2026, 3, 1, 7, 20)
READINGS = pa.table(
    {
        "ts": pa.array([START, START + 3 * HOUR, START + HOUR, None, START], pa.timestamp("us")),
        "sensor": ["a", "a", "b", "b", None],
        "until": pa.array([START + HOUR, None, START + 2 * HOUR, START, START], pa.timestamp("us")),
        "level": [1.0, 4.0, 7.0, 8.0, 9.0],
    }
)

values = st.none() | st.integers(-20, 20)


def test_covers_each_key_from_its_first_row_to_its_last() -> None:
    made = jn.grid(READINGS, every="1h", by="sensor")
    hours = [(row["sensor"], row["ts"].hour) for row in made.to_pylist()]
    assert hours == [("a", 7), ("a", 8), ("a", 9), ("a", 10), ("b", 8)]
    assert made.schema == pa.schema([("sensor", pa.string()), ("ts", pa.timestamp("us"))])


def test_begins_and_ends_where_constants_and_columns_say() -> None:
    made = jn.grid(READINGS, every="30m", by="sensor", start=START, end="until")
    assert made.group_by("sensor").aggregate([("ts", "count")]).to_pydict() == {
        "sensor": ["a", "b"],
        "ts_count": [3, 5],
    }
    assert made["ts"][0].as_py() == START
    whole = jn.grid(every=timedelta(days=2), start=date(2026, 1, 1), end=date(2026, 1, 6), on="day")
    assert whole.to_pydict() == {"day": [date(2026, 1, 1), date(2026, 1, 3), date(2026, 1, 5)]}


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), values), max_size=12), st.integers(1, 7))
def test_has_every_step_of_every_key_once(rows: list[tuple[str | None, int | None]], every: int) -> None:
    data = pa.table(
        [[row[0] for row in rows], [row[1] for row in rows]], pa.schema([("k", pa.string()), ("ts", pa.int64())])
    )
    places: dict[str, list[int]] = {}
    for key, value in rows:
        if key is not None and value is not None:
            places.setdefault(key, []).append(value)
    expected = [
        {"k": key, "ts": value}
        for key, found in places.items()
        for value in range(min(found) // every * every, max(found) + 1, every)
    ]
    assert jn.grid(data, every=every, by="k").to_pylist() == expected


@pytest.mark.parametrize("convert", [pl.from_arrow, lambda table: table.to_pandas(types_mapper=pd.ArrowDtype)])
def test_comes_in_the_library_of_the_data(convert: Any) -> None:
    made = jn.grid(convert(READINGS), every="1h", by="sensor")
    assert type(made) is type(convert(READINGS))
    assert pa.table(made).select(["sensor", "ts"]).to_pydict() == jn.grid(READINGS, every="1h", by="sensor").to_pydict()
    joined = jn.interpolate(made, convert(READINGS), on="ts", by="sensor", columns="level")
    assert type(joined) is type(made)
    expected = jn.interpolate(pa.table(made).select(["sensor", "ts"]), READINGS, on="ts", by="sensor", columns="level")
    assert pa.table(joined)["level"].to_pylist() == pytest.approx(expected["level"].to_pylist(), nan_ok=True)


def brute_force(at: int | None, rows: list[tuple[int | None, int | None]], reach: int | None) -> float | None:
    """Return the value on the line at a place, in exact arithmetic."""
    known = [(place, value) for place, value in rows if place is not None]
    if at is None:
        return None
    near = [each for each in known if reach is None or abs(each[0] - at) <= reach]
    before, after = ([each for each in near if (each[0] - at) * side >= 0] for side in (-1, 1))
    if not before or not after:
        return None
    # Of rows at one place the greatest counts, and null is lowest.
    (x0, y0), (x1, y1) = (
        max(
            (each for each in some if each[0] == pick(each[0] for each in some)),
            key=lambda each: (each[1] is not None, each[1]),
        )
        for some, pick in ((before, max), (after, min))
    )
    if y0 is None or y1 is None:
        return None
    return float(y0) if x0 == x1 else float(y0 + Fraction(y1 - y0) * Fraction(at - x0, x1 - x0))


@given(st.lists(values, max_size=8), st.lists(st.tuples(values, values), max_size=8), st.sampled_from([None, 3]))
def test_lies_on_the_line_between_the_row_before_and_the_row_after(
    places: list[int | None], rows: list[tuple[int | None, int | None]], reach: int | None
) -> None:
    left = pa.table({"at": pa.array(places, pa.int64())})
    right = pa.table(
        {"at": pa.array([row[0] for row in rows], pa.int64()), "y": pa.array([row[1] for row in rows], pa.int64())}
    )
    found = jn.interpolate(left, right, on="at", columns="y", tolerance=reach)
    expected = [brute_force(at, rows, reach) for at in places]
    assert found["at"].to_pylist() == places
    assert found["y"].to_pylist() == pytest.approx(expected)


def test_has_a_tolerance_for_each_side() -> None:
    left, right = pa.table({"at": [3, 8]}), pa.table({"at": [0, 10], "y": [0.0, 10.0]})
    assert jn.interpolate(left, right, on="at", columns="y", tolerance=(5, None))["y"].to_pylist() == [3.0, None]
    assert jn.interpolate(left, right, on="at", columns="y", tolerance=(None, 5))["y"].to_pylist() == [None, 8.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jn.grid(READINGS, every=0, on="ts"), "every=0"),
        (lambda: jn.grid(READINGS, every=None), "every=None is not a step"),
        (lambda: jn.grid(READINGS, every="1ns"), "whole number of steps"),
        (lambda: jn.grid(every=1, by="sensor", start=0, end=1), "names columns, but data is None"),
        (lambda: jn.grid(every=1, start=0), "end=None is not a value"),
        (lambda: jn.grid(READINGS, every="1h", by={"sensor": ["a"]}), "needs data=None"),
        (lambda: jn.grid(READINGS, every="1h", by=["ts"]), "name a column twice"),
        (lambda: jn.grid(READINGS, every="1h", start=5.5), "start=5.5"),
        (lambda: jn.interpolate(READINGS, READINGS, on="ts", columns=[]), "is empty"),
        (lambda: jn.interpolate(READINGS, READINGS, on="ts", columns="level", tolerance=(1, 2, 3)), "has 3 values"),
        (lambda: jn.interpolate(READINGS, READINGS, on="ts", columns="level", method="cubic"), "no argument method="),
    ],
)
def test_refuses_arguments_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(jn.SpecError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jn.grid(READINGS, every=1, on="level"), "no regular steps"),
        (lambda: jn.grid(READINGS, every="1h", by="sensors"), "by='sensors' is not a column"),
        (lambda: jn.interpolate(READINGS, READINGS, on="ts", columns="sensor"), "interpolation needs numbers"),
        (lambda: jn.interpolate(READINGS, READINGS, on="ts", columns="levels"), "columns='levels' is not a column"),
    ],
)
def test_refuses_columns_that_do_not_suit(make: Any, message: str) -> None:
    with pytest.raises(jn.SchemaError, match=message):
        make()


@pytest.mark.spark
@pytest.mark.in_turn
def test_is_the_same_on_spark(spark: SparkSession) -> None:
    data = to_spark(spark, READINGS)
    for arguments in ({}, {"start": START, "end": "until"}, {"by": "sensor"}, {"by": ["sensor"], "end": START + HOUR}):
        made = jn.grid(data, every="1h", **arguments).toArrow()
        assert difference(made, jn.grid(READINGS, every="1h", **arguments), ordered=False) is None, arguments
    constants: dict[str, Any] = {"every": 5, "by": {"k": ["a", "b"]}, "start": 0, "end": 12}
    assert difference(jn.grid(spark=spark, **constants).toArrow(), jn.grid(**constants), ordered=False) is None


@pytest.mark.spark
@pytest.mark.in_turn
def test_interpolates_the_same_on_spark(spark: SparkSession) -> None:
    spine = jn.grid(READINGS, every="20m", by="sensor")
    arguments: dict[str, Any] = {"on": "ts", "by": "sensor", "columns": "level", "tolerance": ("2h", "4h")}
    found = jn.interpolate(to_spark(spark, spine), to_spark(spark, READINGS), **arguments).toArrow()
    assert difference(found, jn.interpolate(spine, READINGS, **arguments), ordered=False) is None


def test_grids_at_the_ends_of_their_type():
    whole = pa.table({"ts": [-(2**63) + 3, 2**63 - 1]})
    assert jn.grid(whole, every=2**62, start=-(2**63))["ts"].to_pylist() == [-(2**63), -(2**62), 0, 2**62]
    small = pa.table({"ts": pa.array([-128, 127], pa.int8())})
    assert jn.grid(small, every=50, start=-128)["ts"].to_pylist() == [-128, -78, -28, 22, 72, 122]
    for data, every in ((small, 50), (whole.slice(0, 1), 9)):
        with pytest.raises(DataError, match=r"the preceding multiple of every=.* Pass start=, or cast"):
            jn.grid(data, every=every)


@pytest.mark.parametrize("last", [10**12, 2**63 - 1])
def test_grids_that_no_memory_holds(last):
    with pytest.raises(DataError, match=r"The grid would have about .* rows, which do not fit in memory"):
        jn.grid(pa.table({"ts": [-last, last]}), every=1)
