"""CSV and JSON, turned into Parquet on the way in and out of Parquet on the way out."""
