"""Facts of findings about trajectory."""
