"""Sentences of findings about trajectory."""
