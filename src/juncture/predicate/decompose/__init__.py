"""What of a predicate brings rows together: keys, ranges, filters, and what is left."""
