"""As-of joins in-process."""
