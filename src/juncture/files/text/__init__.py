"""CSV and JSON files: type inference, reading and writing."""
