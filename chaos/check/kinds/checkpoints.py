"""Facts of findings about checkpoints."""
