"""Where the state of joins of changing tables is kept, so that it outlives the process."""
