"""Sinks for changes of a result, with exactly-once delivery of epochs."""
