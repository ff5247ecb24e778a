"""The keywords of a function for Python, where `help` and notebooks look for them."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def show_keywords(options: type) -> Callable[[F], F]:
    """Return a decorator: a function's signature and its help list the keys of a typed dictionary.

    `**options: Unpack[Options]` is what type checkers read, and a signature shows one word for it.
    """
    keywords = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
        for name, hint in options.__annotations__.items()
    ]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()
        vars(function)["__signature__"] = signature.replace(parameters=[*parameters, *keywords])
        names = ", ".join(keyword.name for keyword in keywords)
        lines = textwrap.wrap(f"Keywords: {names}.", 96)
        function.__doc__ = f"{inspect.getdoc(function)}\n\n{chr(10).join(lines)}"
        return function

    return decorate
