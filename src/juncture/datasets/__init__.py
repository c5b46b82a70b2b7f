"""Real and generated tables for demos, tests and benchmarks."""

from juncture.datasets.asof import SCALES, AsofTables, write_asof
from juncture.datasets.nycflights import flights, weather

__all__ = ["SCALES", "AsofTables", "flights", "weather", "write_asof"]
