"""Facts of findings about epochs."""
