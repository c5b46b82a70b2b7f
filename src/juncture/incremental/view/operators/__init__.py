"""What takes the changes of an epoch in and gives those of its answer, an operator a module."""
