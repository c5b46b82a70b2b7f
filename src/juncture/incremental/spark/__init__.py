"""Joins of streaming DataFrames of changes."""
