"""Resources of a join: threads, memory, spilling, sources of rows, sorting."""
