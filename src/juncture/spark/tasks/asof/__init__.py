"""What tasks of as-of joins run."""
