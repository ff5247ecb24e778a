"""The rules of options: what one does nothing without, and what it excludes.

An option states them beside its name, `Annotated[…, typer.Option("--storage"),
RequiresOption("address")]`; whatever breaks a rule is refused here. Those of an audit are in its
request.
"""

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from typer.models import OptionInfo

from chaos.errors import UsageError

# From here on, an option is taken for one of chaos's in other letters: in any case, and if the
# script does not have the word.
ALIKE, ALIKE_IF_NOWHERE_ELSE = 0.85, 0.75


class RequiresOption(NamedTuple):
    """The option does nothing without this parameter of the command."""

    parameter: str


class ExcludesOption(NamedTuple):
    """The option does not go with this parameter of the command."""

    parameter: str
    problem: str
    hint: str = "Give one of them."
    #: The values of that parameter that it does not go with; left out: any but the default.
    values: tuple[object, ...] = ()
    #: The option's own value that asks for nothing.
    unless: object = None


class OptionUse(NamedTuple):
    """One option of a command, in this call."""

    name: str
    value: Any
    default: object
    rules: tuple[object, ...]

    @property
    def is_given(self) -> bool:
        """Whether it asks for something."""
        is_empty = self.value is None or self.value is False or self.value == []
        return not is_empty and self.value != self.default  # 0 is a number that somebody gave


def refuse_contradictions(command: Callable[..., object], params: Mapping[str, Any]) -> None:
    """Raise `UsageError` if options of this call exclude each other."""
    options = list_options(command, params)
    for option in options.values():
        for rule in option.rules if option.is_given else ():
            if (
                isinstance(rule, RequiresOption)
                and not (other_option := options[rule.parameter]).is_given
            ):
                hint = f"Add {other_option.name}, or leave {option.name} out."
                raise UsageError(
                    f"{option.name} goes with {other_option.name}", hint, location=option.name
                )
            if isinstance(rule, ExcludesOption) and _is_broken(
                rule, option, options[rule.parameter]
            ):
                raise UsageError(rule.problem, rule.hint, location=option.name)


def _is_broken(rule: ExcludesOption, option: OptionUse, other_option: OptionUse) -> bool:
    is_in_conflict = other_option.value in rule.values if rule.values else other_option.is_given
    return is_in_conflict and (rule.unless is None or option.value != rule.unless)


def build_script_option_error(
    command: str,
    args: Sequence[str],
    argument_words: Mapping[str, Any],
    close_options: Sequence[str],
) -> UsageError | None:
    """Return the answer to an option that is no option of a command, but may be its script's.

    `argument_words` has the words of each argument where unknown options are words as well;
    `close_options` are options of the command that are spelt alike. None where no script is among
    the words.
    """
    if "script" not in argument_words:
        return None
    words = [argument_words["script"], *(argument_words["arguments"] or ())]
    unknown = next(word for word in words if word.startswith("-"))
    # Behind an unknown option a word may be its value, so that only a file is taken for the script.
    script = words[0] if words[0] != unknown else next(filter(os.path.isfile, words[1:]), None)
    if script is None:
        return None
    chaos_options = [*_drop_words(words, args)]
    words.remove(script)
    line = shlex.join(["chaos", command, script, *chaos_options, "--", *words])
    option = unknown.partition("=")[0]
    suggestion = (
        f"Did you mean {close_options[0]}? "
        if close_options and _is_misspelt(option, close_options[0], script)
        else ""
    )
    hint = f"{suggestion}Arguments of the script follow --:\n  {line}"
    return UsageError(f"{option} is no option of chaos", hint)


def _drop_words(words: Sequence[str], args: Sequence[str]) -> Iterator[str]:
    """Yield what is left of a command line: the command's own options."""
    remaining_words = [*words]
    for word in args:
        if remaining_words and word == remaining_words[0]:
            del remaining_words[0]
        elif word != "--":
            yield word


def _is_misspelt(option: str, known_option: str, script: str) -> bool:
    """Return whether an option is rather a known one in other letters than one of the script's."""
    similarity = SequenceMatcher(None, option, known_option).ratio()
    if not ALIKE > similarity >= ALIKE_IF_NOWHERE_ELSE:
        return similarity >= ALIKE
    try:
        text = Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return re.search(rf"\b{re.escape(option.strip('-').replace('-', '_'))}\b", text) is None


def list_options(command: Callable[..., object], params: Mapping[str, Any]) -> dict[str, OptionUse]:
    """Return the options of a command by parameter."""
    options, hints = dict[str, OptionUse](), get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        rules = get_args(hints.get(name))
        for info in rules:
            if isinstance(info, OptionInfo):  # its name is where, without `Annotated`, a default is
                option_name = str(info.default)
                options[name] = OptionUse(option_name, params.get(name), parameter.default, rules)
    return options
