"""The public functions: joins in one call, plans, streams, change streams and views."""
