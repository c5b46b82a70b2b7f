"""Joins of streaming DataFrames: a stream with a table, and two streams."""
