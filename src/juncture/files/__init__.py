"""Files that are not Parquet, and files that are written: formats, text as typed columns, and places for outputs."""
