"""Arrow columns as arrays of integers that kernels read: keys, order, ties, hashes. No files, no threads."""
