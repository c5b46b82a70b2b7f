"""Benchmarks: ours and the peers on the same data in one run, answers checked, each run in a process of its own."""
