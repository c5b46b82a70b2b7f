"""What a predicate says: nodes, types, and SQL text in both directions."""
