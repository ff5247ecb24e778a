"""Facts of findings about processes."""
