"""Benchmarks of Juncture and other libraries on the same data. Results are checked, and each run has a new process."""
