"""What a join on Spark reads: DataFrames, and Parquet files that its tasks read themselves."""
