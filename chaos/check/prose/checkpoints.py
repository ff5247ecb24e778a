"""Sentences of findings about checkpoints."""
