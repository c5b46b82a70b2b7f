"""The benchmark of joins of streams: Juncture and DataFusion, long joins, and as-of joins of streams and tables."""
