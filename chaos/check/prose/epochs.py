"""Sentences of findings about epochs."""
