"""Facts of findings about outcome."""
