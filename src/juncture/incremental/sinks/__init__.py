"""Where changes of an answer go: each epoch once, whatever happens in between."""
