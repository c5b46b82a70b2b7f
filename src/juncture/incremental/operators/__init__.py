"""The operators of views, one per module: each turns the changes of its inputs into changes of its output."""
