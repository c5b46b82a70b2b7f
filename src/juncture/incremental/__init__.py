"""Joins of tables that change: operators that turn changes of the inputs into changes of the result, and state."""
