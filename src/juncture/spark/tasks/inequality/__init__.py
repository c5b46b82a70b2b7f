"""Tasks of range, overlap and predicate joins."""
