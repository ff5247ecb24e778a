"""Sentences of findings about metrics."""
