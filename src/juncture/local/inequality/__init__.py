"""Range, overlap and predicate joins in-process."""
