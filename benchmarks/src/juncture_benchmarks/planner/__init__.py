"""The planner's choices, beside what else could have run."""
