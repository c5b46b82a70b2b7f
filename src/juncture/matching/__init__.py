"""What joins of streams and of changing tables share: conditions, key codes, code ranges and output."""
