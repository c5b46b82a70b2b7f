"""Joins of many tables to one spine, in Spark's tasks."""
