"""Expressions of a query, computed over batches."""
