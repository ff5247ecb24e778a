"""Facts of findings about state."""
