"""Generated tables, written once and kept: keys by Zipf's law, events, points, intervals, and keyed rows."""

from juncture_benchmarks.datasets.asof import SCALES, AsofTables, write_asof
from juncture_benchmarks.datasets.equi import EquiTables, write_keyed
from juncture_benchmarks.datasets.range import RangeTables, write_events, write_intervals, write_points

__all__ = [
    "SCALES",
    "AsofTables",
    "EquiTables",
    "RangeTables",
    "write_asof",
    "write_events",
    "write_intervals",
    "write_keyed",
    "write_points",
]
