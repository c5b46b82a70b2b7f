"""Equality joins."""
