"""The arguments of a job: options by name, or a command line word for word."""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator


def _told_plainly(value: object) -> object:
    """Refuse other values in one sentence: pydantic would have one for each type that it tried."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple) and all(map(_is_word, value)):
        return tuple(value)
    raise ValueError("args are options by name, or a list of words and numbers")


def _is_word(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


Arguments: TypeAlias = Annotated[
    dict[str, Any] | tuple[str | int | float, ...], BeforeValidator(_told_plainly)
]


def restarted(args: Arguments, more: Arguments) -> Arguments:
    """Return the arguments of a later start: an option by name replaces its like, words follow."""
    if isinstance(args, dict) and isinstance(more, dict):
        return {**args, **more}
    return (*command_line(args), *command_line(more))


def command_line(args: Arguments) -> list[str]:
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
