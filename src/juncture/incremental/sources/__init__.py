"""Sources of changes: initial tables, then epochs of changes with offsets."""
