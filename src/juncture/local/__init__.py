"""The in-process engine: joins over Arrow tables, streams and Parquet files, by threads, in bounded memory."""
