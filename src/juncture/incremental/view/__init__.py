"""Views: SQL is parsed into a plan, and the plan becomes operators that turn input changes into output changes."""
