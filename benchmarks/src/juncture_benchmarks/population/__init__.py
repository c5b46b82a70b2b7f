"""Time to populate a join of changing tables: row by row, by sorted batches, and as a batch join."""
