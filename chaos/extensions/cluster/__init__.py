"""Clusters that chaos did not start: agents on their nodes, platforms that take machines back."""
