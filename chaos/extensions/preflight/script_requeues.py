"""The `scontrol requeue` of a script for sbatch: whether its signal surely leads to it."""

import re
from collections.abc import Iterator, Sequence

_REQUEUE = re.compile(r"scontrol\s+requeue\b")
_WAIT = re.compile(r"wait\b")
_END = re.compile(r"(?:exit|return|exec)\b")
_OPENS = re.compile(r"(?:if|for|while|until|case|select)\b|(?:.*\s|.*\(\))?\{$|\($")
_CLOSES = re.compile(r"(?:fi|done|esac)\b|[})]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def surely_requeues(text: str, trap_texts: Sequence[str]) -> bool:
    """Return whether a trap of the signal queues the job again, or the lines after `wait` do.

    What depends on a condition is not sure, and neither is what stands in a text or a document.
    """
    if "<<" in text or not any(trap_texts):
        return False
    handlers = [_list_handler_commands(text, trap_text) for trap_text in trap_texts if trap_text]
    if any(_REQUEUE.match(command) for commands in handlers for command in commands):
        return True
    if any(_END.match(command) for commands in handlers for command in commands):
        return False
    commands = [*_list_commands(text)]
    wait = next((n for n, command in enumerate(commands) if _WAIT.match(command)), None)
    return wait is not None and any(_REQUEUE.match(command) for command in commands[wait:])


def _list_handler_commands(text: str, trap_text: str) -> list[str]:
    """Return what a trap runs, with the commands of the functions that it names."""
    commands = []
    for command in _list_commands(trap_text):
        commands.append(command)
        if re.fullmatch(r"[\w-]+", command):
            commands += _list_function_commands(text, command)
    return commands


def _list_function_commands(text: str, name: str) -> Iterator[str]:
    """Yield the commands of a function; none if the script has no such function."""
    head = rf"(?m)^\s*(?:function\s+{name}\b\s*(?:\(\s*\))?|{name}\s*\(\s*\))\s*\{{"
    match = re.search(head, text)
    if match is not None:
        yield from _list_commands(text[match.end() :])


def _list_commands(text: str) -> Iterator[str]:
    """Yield the commands that are run whatever happens, to the first that ends all others.

    A text that begins in a block ends with it.
    """
    depth = 0
    plain = re.sub(r"\\\n", " ", _QUOTED.sub("TEXT", _strip_comments(text)))
    plain = re.sub(r"(?<![$\w]){\s", "{\n", plain)
    for command in (part.strip() for part in re.split(r"[;\n]|(?<![&>])&(?![&>])", plain)):
        if _CLOSES.match(command):
            depth -= 1
            if depth < 0:
                return
        elif _OPENS.match(command):
            depth += 1
        elif depth == 0 and command:
            yield command
            if _END.match(command):
                return


def _strip_comments(text: str) -> str:
    return re.sub(r"(?m)(?:^|(?<=\s))#.*$", "", text)
