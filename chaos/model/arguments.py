"""The arguments of a job: options by name, or a command line word for word."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def _validate_arguments(value: object) -> object:
    """Refuse other values in one sentence: pydantic would have one for each type that it tried."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple) and all(map(_is_argument_value, value)):
        return tuple(value)
    raise ValueError("args are options by name, or a list of words and numbers")


def _is_argument_value(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


Arguments: TypeAlias = Annotated[
    dict[str, Any] | tuple[str | int | float, ...], BeforeValidator(_validate_arguments)
]


def merge_restart_args(args: Arguments, restart_args: Arguments) -> Arguments:
    """Return the arguments of a later start: an option by name replaces its like, words follow."""
    if isinstance(args, dict) and isinstance(restart_args, dict):
        return {**args, **restart_args}
    return (*build_command_line(args), *build_command_line(restart_args))


def build_command_line(args: Arguments) -> list[str]:
    """Return a command line: `{epochs: 4, fast: true}` is `--epochs 4 --fast`; words are words."""
    if not isinstance(args, dict):
        return [str(word) for word in args]
    words: list[str] = []
    for name, value in args.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, list | tuple):
            words += [f"--{name}", *map(str, value)]
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words
