"""Listeners of the use cases that show them on a console, for the command line and for Python."""
