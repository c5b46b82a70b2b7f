"""How a join is done: statistics in, an algorithm and its reasons out. Nothing here touches data."""
