"""How long a join of changing tables takes to be filled, row by row, by sorted batches, and as a batch join."""
