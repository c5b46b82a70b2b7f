"""Partitions, carryover and planning of tables that are too large to store, simulated from their histograms."""
