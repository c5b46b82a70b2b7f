"""Joins by time or order."""

__version__ = "0.1.0"
