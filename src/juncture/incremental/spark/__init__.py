"""Joins of tables that change on Spark: streaming DataFrames of changes."""
