"""The Spark session: its settings, its Java, and what it tells of queries that ran."""
