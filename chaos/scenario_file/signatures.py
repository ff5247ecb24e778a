"""The stub of `faults`, for editors and type checkers.

It is made by `python -m chaos.scenario_file.signatures > chaos/scenario_file/faults.pyi`.
"""

import sys
from collections.abc import Iterator
from inspect import Parameter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from chaos.model.fault_entry import OWN_FAULTS
from chaos.scenario_file.from_python import build_signature

_HEAD = """\
# What each fault's function takes. Written by `python -m chaos.scenario_file.signatures`.

from collections.abc import Mapping
from typing import Any, Literal

from chaos.model.draws import Every, UpTo
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtState, AtStep, AtTime

"""


def build_stub() -> str:
    """Return the stub's text: chaos's own faults, wherever it is made."""
    return "".join([_HEAD, *(line for name in OWN_FAULTS for line in _render_function(name))])


def _render_function(fault: str) -> Iterator[str]:
    yield f"def {fault}(\n    *,\n"
    for parameter in build_signature(fault).parameters.values():
        default = (
            "" if parameter.default is Parameter.empty else f" = {_format_value(parameter.default)}"
        )
        yield f"    {parameter.name}: {format_type(parameter.annotation)}{default},\n"
    yield ") -> FaultEntry: ...\n"


def format_type(kind: Any) -> str:  # noqa: ANN401 - a type, of which Python has many kinds
    """Return a type as source text."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is NoneType:
        return "None"
    if kind is Ellipsis:
        return "..."
    if origin in {Union, UnionType}:
        return " | ".join(map(format_type, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(_format_value, args))}]"
    name = getattr(kind, "__name__", str(kind))
    return f"{name}[{', '.join(map(format_type, args))}]" if args else name


def _format_value(value: Any) -> str:  # noqa: ANN401 - a default, of any type
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    sys.stdout.write(build_stub())
