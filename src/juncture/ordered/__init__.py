"""Ordered values: one class per kind, with its codes, steps, distances and texts, and its twin in Spark's SQL.

To add a kind of ordered value, write a `Domain` and add it to `kinds.py`. For joins in SQL, add an `SqlDomain` to
`sql.py`.
"""
