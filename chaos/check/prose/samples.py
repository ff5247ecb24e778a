"""Sentences of findings about samples."""
