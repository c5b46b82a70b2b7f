"""Shuffles of packets between stages, and the partition of each row."""
