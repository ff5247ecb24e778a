"""Facts of findings about metrics."""
