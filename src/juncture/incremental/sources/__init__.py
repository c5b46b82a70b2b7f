"""Where changes come from: tables at first, then epochs of what changed, with offsets that say how far one has come."""
