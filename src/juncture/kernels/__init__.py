"""Compiled loops over plain arrays. Nothing here knows of Arrow, Spark or the rest of Juncture.

Each kernel has one explicit signature, is compiled when first called and kept on disk, and runs without the
interpreter's lock, so that threads scale.
"""
