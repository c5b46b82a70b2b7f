"""Joins of streams and of changing tables on Spark."""
