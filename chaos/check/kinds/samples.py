"""Facts of findings about samples."""
