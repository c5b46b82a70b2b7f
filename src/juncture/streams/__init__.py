"""Joins of streams in this process: rows are held for as long as what can still come may match them."""
