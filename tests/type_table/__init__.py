"""What each type can be in a join: every type of every library, tried in every role."""
