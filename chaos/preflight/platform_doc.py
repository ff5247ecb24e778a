"""A document of a platform, in which each value is asked for with its line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from chaos.scenario_file.yaml_lines import Source
from chaos.words import plural

Loc: TypeAlias = tuple[str | int, ...]


class Taken(NamedTuple):
    """A value that was taken from a file."""

    #: in a question, such as `job.nodes`; empty for what only stands in words
    place: str
    value: Any
    line: int
    words: str


class Doc:
    """A document, in which each value is asked for with its line."""

    def __init__(self, source: Source, offset: int) -> None:
        self._source, self._offset = source, offset

    def at(self, *loc: str | int) -> Any:  # noqa: ANN401 - what YAML has
        node: Any = self._source.value
        for part in loc:
            if isinstance(part, int):
                node = node[part] if isinstance(node, list) and part < len(node) else None
            else:
                node = node.get(part) if isinstance(node, dict) else None
        return node

    def line(self, *loc: str | int) -> int:
        return self._source.lines.key(loc) + self._offset

    def whole(self, *loc: str | int) -> int | None:
        value = self.at(*loc)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def mapping(self, *loc: str | int) -> Mapping[Any, Any]:
        value = self.at(*loc)
        return value if isinstance(value, dict) else {}

    def listed(self, *loc: str | int) -> Sequence[Any]:
        value = self.at(*loc)
        return value if isinstance(value, list) else ()

    def number(self, *loc: str | int, what: str) -> "Number":
        """Return a whole number, or that one is yet to be filled in (`$NUM_NODES`)."""
        value = self.at(*loc)
        if isinstance(value, str) and not value.strip().isdigit():
            words = f"{what} is missing: {loc[-1]} is {value}, to be filled in"
            return Number(None, Taken("", value, self.line(*loc), words))
        if isinstance(value, str):
            value = int(value)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return Number(value if is_whole else None, None)


class Number(NamedTuple):
    """A number of a document, or the words for one that is missing."""

    value: int | None
    missing: Taken | None


def nodes_taken(count: int, line: int, words: str) -> Iterator[Taken]:
    """Yield the nodes of a job, if there are any."""
    if count:
        yield Taken("job.nodes", count, line, words)


# -- the command that a file starts ------------------------------------------------------------

_TORCHRUN = re.compile(
    r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b|\baccelerate launch\b|\bft_launcher\b"
)
_RESTARTS = re.compile(r"--max[-_]restarts[= ]+(\S+)")
_SIZES = re.compile(r"--nnodes[= ]+(\d+):(\d+)")
_JOIN = re.compile(r"join_timeout=(\d+)")


def of_command(text: str) -> Iterator[Taken]:
    """Yield what a command of torchrun in a file says: its restarts, and the nodes it needs."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        if (found := _RESTARTS.search(line)) is not None:
            yield _restarts(found[1].strip("\"'\\"), number)
        if (found := _SIZES.search(line)) is not None and int(found[1]) < int(found[2]):
            least = int(found[1])
            yield Taken("job.min_nodes", least, number, f"it goes on with {least} (--nnodes)")
        if (found := _JOIN.search(line)) is not None:
            words = f"agents wait {found[1]} s for each other (join_timeout)"
            yield Taken("settings.join_timeout_s", float(found[1]), number, words)


def _restarts(value: str, line: int) -> Taken:
    default = re.fullmatch(r"\$\{\w+:-(\d+)\}", value)
    if default is not None:
        words = (
            f"torchrun starts its workers again {plural(int(default[1]), 'time')}, unless {value}"
        )
        return Taken("settings.max_restarts", int(default[1]), line, f"{words} is set otherwise")
    if not value.isdigit():
        words = f"settings.max_restarts is missing: --max-restarts is {value}, to be filled in"
        return Taken("", value, line, words)
    words = f"torchrun starts its workers again {plural(int(value), 'time')} (--max-restarts)"
    return Taken("settings.max_restarts", int(value), line, words)


def starts_torchrun(text: str) -> bool:
    """Return whether a file's command is torchrun's, or one that starts its agents."""
    return any(_TORCHRUN.search(line) for line in _of_text(text))


def says_nodes(text: str) -> bool:
    """Return whether a command in a file says the number of nodes itself."""
    return any("--nnodes" in line for line in _of_text(text))


def _of_text(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if not line.lstrip().startswith("#"))
