"""Random joins of every kind, algorithm, engine and type, held against the definition by brute force.

A run is ``make fuzz SECONDS=600 SEED=1``. Each case follows from the seed and its number alone, so that
``make fuzz SEED=1 CASE=123`` runs one again. What fails is shrunk and printed as a script.
"""
