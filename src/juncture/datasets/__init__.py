"""Real tables for the demo."""

from juncture.datasets.nycflights import flights, weather

__all__ = ["flights", "weather"]
