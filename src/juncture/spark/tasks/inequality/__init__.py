"""What tasks of range, overlap and predicate joins run."""
