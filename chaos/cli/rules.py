"""The rules of options: what one does nothing without, what it excludes, and who takes it.

An option states them beside its name, `Annotated[…, typer.Option("--storage"), Needs("address")]`;
the launchers that take it name it in their rows. Whatever breaks a rule is refused here.
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
from chaos.model.launcher import FACTS, LauncherFacts

# From here on, an option is taken for one of chaos's in other letters: in any case, and if the
# script does not have the word.
ALIKE, ALIKE_IF_NOWHERE_ELSE = 0.85, 0.75


class Needs(NamedTuple):
    """The option does nothing without this parameter of the command."""

    other: str


class NotWith(NamedTuple):
    """The option does not go with this parameter of the command."""

    other: str
    problem: str
    hint: str = "Give one of them."
    #: The values of that parameter that it does not go with; left out: any but the default.
    values: tuple[object, ...] = ()
    #: The option's own value that asks for nothing.
    unless: object = None


class Instead(NamedTuple):
    """The reason why a launcher that does not take the option needs none."""

    why: str


class GivenOption(NamedTuple):
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
    options = options_of(command, params)
    for option in options.values():
        for rule in option.rules if option.is_given else ():
            if isinstance(rule, Needs) and not (other := options[rule.other]).is_given:
                hint = f"Add {other.name}, or leave {option.name} out."
                raise UsageError(f"{option.name} goes with {other.name}", hint, place=option.name)
            if isinstance(rule, NotWith) and _is_broken(rule, option, options[rule.other]):
                raise UsageError(rule.problem, rule.hint, place=option.name)


def _is_broken(rule: NotWith, option: GivenOption, other: GivenOption) -> bool:
    is_there = other.value in rule.values if rule.values else other.is_given
    return is_there and (rule.unless is None or option.value != rule.unless)


def refuse_others_options(
    command: Callable[..., object], params: Mapping[str, Any], facts: LauncherFacts
) -> None:
    """Raise `UsageError` for an option, or a backend, that this launcher's row does not have."""
    for option in options_of(command, params).values():
        takers = [each for each in FACTS.values() if option.name in each.options]
        if option.is_given and takers and facts not in takers:
            raise _not_taken(option.name, option, takers[0], facts)
        if option.name == "--backend" and option.value not in ("fork", facts.name):
            # Else it is a launcher's name: that of its real processes, too.
            name = f"--backend {option.value}"
            raise _not_taken(name, option, FACTS[option.value], facts)


def _not_taken(
    name: str, option: GivenOption, taker: LauncherFacts, facts: LauncherFacts
) -> UsageError:
    why = "".join(f": {rule.why}" for rule in option.rules if isinstance(rule, Instead))
    problem = f"{name} is for scripts that {taker.name} starts{why}"
    but = f"if {taker.name} starts the script"
    if "call" in taker.has:
        problem = f"{name} needs Ray Train, and {facts.name} starts this script"
        but = "if the script does call trainer.fit()"
    hint = f"Leave {name} out; or, {but}, add --launcher {taker.name}."
    return UsageError(problem, hint, place=option.name)


def option_of_the_script(
    command: str, args: Sequence[str], read: Mapping[str, Any], near: Sequence[str]
) -> UsageError | None:
    """Return the answer to an option that is no option of a command, but may be its script's.

    `read` has the words of each argument where unknown options are words as well; `near` are
    options of the command that are spelt alike. None where no script is among the words.
    """
    if "script" not in read:
        return None
    words = [read["script"], *(read["arguments"] or ())]
    unknown = next(word for word in words if word.startswith("-"))
    # Behind an unknown option a word may be its value, so that only a file is taken for the script.
    script = words[0] if words[0] != unknown else next(filter(os.path.isfile, words[1:]), None)
    if script is None:
        return None
    own = [*_without(words, args)]
    words.remove(script)
    line = shlex.join(["chaos", command, script, *own, "--", *words])
    option = unknown.partition("=")[0]
    meant = f"Did you mean {near[0]}? " if near and _is_misspelt(option, near[0], script) else ""
    hint = f"{meant}Arguments of the script follow --:\n  {line}"
    return UsageError(f"{option} is no option of chaos", hint)


def _without(words: Sequence[str], args: Sequence[str]) -> Iterator[str]:
    """Yield what is left of a command line: the command's own options."""
    left = [*words]
    for word in args:
        if left and word == left[0]:
            del left[0]
        elif word != "--":
            yield word


def _is_misspelt(option: str, known: str, script: str) -> bool:
    """Return whether an option is rather a known one in other letters than one of the script's."""
    alike = SequenceMatcher(None, option, known).ratio()
    if not ALIKE > alike >= ALIKE_IF_NOWHERE_ELSE:
        return alike >= ALIKE
    try:
        text = Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return re.search(rf"\b{re.escape(option.strip('-').replace('-', '_'))}\b", text) is None


def options_of(command: Callable[..., object], params: Mapping[str, Any]) -> dict[str, GivenOption]:
    """Return the options of a command by parameter."""
    found, hints = dict[str, GivenOption](), get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        stated = get_args(hints.get(name))
        for info in stated:
            if isinstance(info, OptionInfo):  # its name is where, without `Annotated`, a default is
                known = str(info.default)
                found[name] = GivenOption(known, params.get(name), parameter.default, stated)
    return found
