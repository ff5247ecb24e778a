"""Sentences of findings about artifacts."""
