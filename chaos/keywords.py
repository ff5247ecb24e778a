"""The keywords of a function for Python, where `help` and notebooks look for them."""

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar, cast

from chaos.wording import suggest_name

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
        full_signature = signature.replace(parameters=[*parameters, *keywords])

        @functools.wraps(function)
        def call(*args: Any, **given_keywords: Any) -> Any:  # noqa: ANN401 - the function's own
            for name in given_keywords:
                if name not in full_signature.parameters:
                    problem = f"{function.__name__}() got an unexpected keyword argument {name!r}"
                    suggestion = suggest_name(name, full_signature.parameters)
                    raise TypeError(f"{problem}. {suggestion}".rstrip(". "))
            return function(*args, **given_keywords)

        vars(call)["__signature__"] = full_signature
        names = ", ".join(keyword.name for keyword in keywords)
        lines = textwrap.wrap(f"Keywords: {names}.", 96)
        call.__doc__ = f"{inspect.getdoc(function)}\n\n{chr(10).join(lines)}"
        return cast("F", call)

    return decorate
