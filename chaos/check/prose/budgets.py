"""Sentences of findings about budgets."""
