"""Range, overlap and predicate joins on Spark."""
