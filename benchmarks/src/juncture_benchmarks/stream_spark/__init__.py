"""As-of joins of two streams of files on Spark: rows a second, latency of a micro-batch, and the state."""
