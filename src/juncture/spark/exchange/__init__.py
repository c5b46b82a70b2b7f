"""Shuffles of packets between stages, and into which partition each row goes."""
