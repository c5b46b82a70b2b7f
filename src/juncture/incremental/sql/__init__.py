"""SQL to plans: DuckDB binds a query, and its bound plan becomes a plan of maintained operators."""
