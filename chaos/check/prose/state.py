"""Sentences of findings about state."""
