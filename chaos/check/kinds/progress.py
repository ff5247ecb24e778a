"""Facts of findings about progress."""
