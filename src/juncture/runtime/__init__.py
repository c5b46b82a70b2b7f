"""What a join may use: threads, memory, spilling, sources of rows, sorting."""
