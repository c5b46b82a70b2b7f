"""Equality joins in-process: by hash tables or by sorting, in memory or on disk."""
