"""Joins on Spark: batch DataFrames of classic Spark and Spark Connect, and Parquet files that the tasks read."""
