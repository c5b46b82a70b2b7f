"""Queries kept up to date: SQL becomes a plan, and the plan operators that take changes in and give changes."""
