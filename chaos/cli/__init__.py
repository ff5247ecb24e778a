"""The command line: a file per command, and `app`, which knows them all."""

from chaos.cli.commands import app, main

__all__ = ["app", "main"]
