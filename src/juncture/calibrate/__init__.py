"""Measurement of the planner's cost constants on this machine."""
