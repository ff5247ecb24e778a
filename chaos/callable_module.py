"""Packages that are functions as well: `chaos.audit(…)` audits, `chaos.audit.card` is a module.

Importing `chaos.audit.card` makes Python rebind `chaos.audit` to the package, which would overwrite
a function of that name. So the package itself is made callable.
"""

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A package whose call is that of a function elsewhere, imported at its first use."""

    __function_in__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - those of the function
        return self._function(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        """The function's, for whatever completes its arguments."""
        return inspect.signature(self._function)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The function's, below its parameters: `help` shows a package, and no signature of it."""
        function = self._function
        parameters = inspect.signature(function).parameters.values()
        words = [
            str(parameter.replace(annotation=parameter.empty))
            for parameter in parameters
            if parameter.kind is not parameter.KEYWORD_ONLY
        ]
        kinds = {parameter.kind for parameter in parameters}
        if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_KEYWORD not in kinds:
            words.append("**keywords")
        call = f"{function.__name__}({', '.join(words)})"
        # Under `python -OO` functions have no docstrings.
        return call if function.__doc__ is None else f"{call}\n\n{function.__doc__}"

    @property
    def _function(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(
            import_module(self.__function_in__), self.__name__.rpartition(".")[2]
        )
        return function


def make_callable(package: str, function_module: str = "chaos.api") -> None:
    """Make a package callable, by its name: a call is that of its function in another module."""
    sys.modules[package].__class__ = CallableModule
    sys.modules[package].__function_in__ = function_module  # type: ignore[attr-defined]
