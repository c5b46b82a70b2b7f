"""Joins of streaming DataFrames: a stream with a table, and two streams by Spark's own operator."""
