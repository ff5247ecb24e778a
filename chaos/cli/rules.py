"""The options of a command, whose rules stand beside their names; and an unknown option's answer.

`Annotated[…, typer.Option("--storage"), Needs("address")]`; a request has those of an audit.
"""

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, get_type_hints

from typer.models import OptionInfo

from chaos.app.field_rules import Field
from chaos.errors import UsageError

# From here on, an option is taken for one of chaos's in other letters: in any case, and if the
# script does not have the word.
ALIKE, ALIKE_IF_NOWHERE_ELSE = 0.85, 0.75


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
    option, equals_sign, value = unknown.partition("=")
    suggestion = ""
    if close_options and _is_misspelt(option, close_options[0], script):
        mended_option = f"{close_options[0]}{equals_sign}{value}"
        mended_words = [mended_option if word == unknown else word for word in args]
        mended_line = shlex.join(["chaos", command, *mended_words])
        suggestion = f"Did you mean {close_options[0]}?\n  {mended_line}\n"
    chaos_options = [*_drop_words(words, args)]
    words.remove(script)
    line = shlex.join(["chaos", command, script, *chaos_options, "--", *words])
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


def list_options(command: Callable[..., object], params: Mapping[str, Any]) -> dict[str, Field]:
    """Return the options of a command by parameter, with their rules."""
    options, hints = dict[str, Field](), get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        extras = getattr(hints.get(name), "__metadata__", ())
        if any(isinstance(extra, OptionInfo) for extra in extras):
            rules = tuple(extra for extra in extras if not isinstance(extra, OptionInfo))
            options[name] = Field(name, params.get(name), parameter.default, rules)
    return options
