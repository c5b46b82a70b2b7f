"""Joins of several tables to one spine, in this process."""
