"""The output of joins: pairs of rows, the columns that stand for them, batch by batch."""
