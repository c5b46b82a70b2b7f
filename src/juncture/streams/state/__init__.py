"""The rows that a join of streams holds."""
