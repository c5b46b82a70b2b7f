"""The stored rows of stream joins."""
