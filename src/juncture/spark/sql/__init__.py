"""Joins and their conditions as Spark columns."""
