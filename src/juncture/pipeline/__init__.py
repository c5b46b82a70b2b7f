"""Pipelines: a TOML file of sources, steps, checks and sinks, run in this process, on Spark, or as a stream."""
