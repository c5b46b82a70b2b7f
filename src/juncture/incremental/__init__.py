"""Joins of tables that change: operators that take changes in and give the changes of the answer, and their state."""
