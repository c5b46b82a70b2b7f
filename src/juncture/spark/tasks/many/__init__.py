"""Tasks of joins of many tables to one spine."""
