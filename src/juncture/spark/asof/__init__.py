"""As-of joins on Spark."""
