"""Changes of tables: rows with weights."""
