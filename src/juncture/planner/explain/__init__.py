"""What a plan says: the facts, as text, JSON and a page."""
