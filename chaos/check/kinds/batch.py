"""Facts of findings about batch."""
