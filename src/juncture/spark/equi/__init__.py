"""Equality joins on Spark, by its own operators."""
