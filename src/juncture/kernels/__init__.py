"""Compiled loops over plain arrays, independent of Arrow, Spark and the rest of Juncture.

Each kernel has one explicit signature, is compiled at its first call and cached on disk, and runs without the
interpreter's lock, so that threads scale.
"""
