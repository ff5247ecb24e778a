"""Sentences of findings about outcome."""
