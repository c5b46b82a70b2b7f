"""Tasks of as-of joins."""
