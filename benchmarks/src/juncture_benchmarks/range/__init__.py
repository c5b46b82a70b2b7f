"""Range and overlap joins."""
