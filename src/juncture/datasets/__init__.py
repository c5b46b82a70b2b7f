"""Real and generated tables for demos, tests and benchmarks."""

from juncture.datasets.asof import SCALES, AsofTables, write_asof
from juncture.datasets.nycflights import flights, weather
from juncture.datasets.range import RangeTables, write_events, write_intervals, write_points

__all__ = [
    "SCALES",
    "AsofTables",
    "RangeTables",
    "flights",
    "weather",
    "write_asof",
    "write_events",
    "write_intervals",
    "write_points",
]
