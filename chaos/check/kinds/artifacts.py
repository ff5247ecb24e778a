"""Facts of findings about artifacts."""
