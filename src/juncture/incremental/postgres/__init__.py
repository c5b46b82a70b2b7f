"""What reading from and writing to PostgreSQL share: connections, types, values as text, and logical replication."""
