"""Arrow columns as arrays of integers for kernels: keys, order, ties, hashes. No files, no threads."""
