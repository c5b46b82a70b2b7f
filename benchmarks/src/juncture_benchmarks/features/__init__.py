"""Joins of many tables to one spine."""
