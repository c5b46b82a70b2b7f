"""Text and Arrow files, output files, and file formats."""
