"""Facts of findings about budgets."""
