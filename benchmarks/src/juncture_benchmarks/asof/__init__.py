"""The as-of benchmark: who takes part, on what data, and what the right answer is."""
