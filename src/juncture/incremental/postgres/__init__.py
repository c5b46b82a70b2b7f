"""What the PostgreSQL source and sink share: connections, types, values as text, and logical replication."""
