"""Measures the constants of the planner's cost formulas on the machine at hand."""
