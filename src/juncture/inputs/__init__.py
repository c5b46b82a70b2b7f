"""Input tables: their kinds, the engine that they need, and conversion from and to their libraries."""
