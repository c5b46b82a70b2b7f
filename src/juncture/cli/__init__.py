"""The command line: what users type, what they see while it runs, and how it ends."""
