"""Real and generated tables for demos, tests and benchmarks."""

from juncture.datasets.asof import SCALES, AsofTables, write_asof
from juncture.datasets.equi import EquiTables, write_keyed
from juncture.datasets.nycflights import flights, weather
from juncture.datasets.range import RangeTables, write_events, write_intervals, write_points

__all__ = [
    "SCALES",
    "AsofTables",
    "EquiTables",
    "RangeTables",
    "flights",
    "weather",
    "write_asof",
    "write_events",
    "write_intervals",
    "write_keyed",
    "write_points",
]
