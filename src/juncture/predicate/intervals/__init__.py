"""Which values a predicate allows: interval arithmetic, forwards and backwards."""
