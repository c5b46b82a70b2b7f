"""Expressions over two tables: what a predicate says, which values it allows, and what a planner can use of it."""
