"""Persistent state of joins of changing tables."""
