"""A command that is called from Python: what it says, and what it gives back."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import typer
from rich.console import Console

from chaos.cli.documents import Document
from chaos.report.screen import build_console

T = TypeVar("T")


@dataclass
class PythonCall(Generic[T]):
    """The call of a command by a program; the command sets `result`, and prints none."""

    words: Sequence[str]
    console: Console
    result: T | None = None

    @classmethod
    def from_context(cls, context: typer.Context) -> "PythonCall[T] | None":
        """Return the call of a command; None where a command line is."""
        return context.find_object(cls)


def find_console(context: typer.Context, document: Document) -> Console:
    """Return what a command tells its progress on."""
    call = PythonCall[object].from_context(context)
    return build_console(stderr=document.takes_stdout) if call is None else call.console


def find_command_words(context: typer.Context) -> Sequence[str]:
    """Return the words of a command, its own name first."""
    call = PythonCall[object].from_context(context)
    return sys.argv[1:] if call is None else call.words
