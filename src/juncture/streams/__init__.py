"""Stream joins in this process. Rows are kept as state only while future rows can match them."""
