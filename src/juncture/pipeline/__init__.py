"""Pipelines: one TOML file of sources, steps, checks and sinks, run in this process, on Spark, and as a stream."""
