"""Predicates evaluated on rows."""
