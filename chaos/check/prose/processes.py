"""Sentences of findings about processes."""
