"""Sentences of findings about progress."""
