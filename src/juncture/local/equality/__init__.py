"""The algorithms behind `juncture.local.equi`: hash tables and sorting, in memory and in pieces on disk."""
