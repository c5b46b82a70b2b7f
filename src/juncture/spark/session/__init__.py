"""The Spark session: its settings, its Java, and the measurements of its queries."""
