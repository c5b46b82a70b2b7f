"""What each kind of join means: frozen values that check themselves against two schemas and know nothing of engines."""
