"""How partitions, carryover and the planner do for tables far too large to have: simulated from their histograms."""
