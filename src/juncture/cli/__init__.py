"""The command line: arguments, progress, results and exit codes."""
