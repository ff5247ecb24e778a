"""Sentences of findings about batch."""
