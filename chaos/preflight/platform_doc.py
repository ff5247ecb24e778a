"""A document of a platform, in which each value is asked for with its line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.scenario_file.yaml_lines import Source
from chaos.words import plural


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
    if count > 0:
        yield Taken("job.nodes", count, line, words)


# -- the command that a file starts ------------------------------------------------------------

_TORCHRUN = re.compile(
    r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b|\baccelerate launch\b|\bft_launcher\b"
)
_RESTARTS = re.compile(r"--max[-_]restarts[=\s]+(\S+)")
_SIZES = re.compile(r"--nnodes[=\s]+(\S+)")
_JOIN = re.compile(r"join_timeout=(\d{1,9})")


def of_command(text: str) -> Iterator[Taken]:
    """Yield what a command of torchrun in a file says: its restarts, and the nodes it needs.

    A command may be a list: `["torchrun", "--max-restarts=3"]`, or an item a line.
    """
    plain = _plain(text)
    for form, told in ((_RESTARTS, _restarts), (_SIZES, _sizes), (_JOIN, _join)):
        for found in form.finditer(plain):
            yield from told(found[1], plain.count("\n", 0, found.start()) + 1)


def _plain(text: str) -> str:
    """Return a text line for line, without comments and the signs of lists."""
    lines = (re.sub(r"^\s*-\s|[\"',\[\]]|\\$", " ", line) for line in text.splitlines())
    return "\n".join("" if line.lstrip().startswith("#") else line for line in lines)


def _sizes(value: str, line: int) -> Iterator[Taken]:
    least, _, most = value.partition(":")
    if most.isdigit() and least.isdigit() and int(least) < int(most):
        words = f"it goes on with {least} (--nnodes)"
        yield Taken("job.min_nodes", int(least), line, words)


def _join(value: str, line: int) -> Iterator[Taken]:
    words = f"agents wait {value} s for each other (join_timeout)"
    yield Taken("settings.join_timeout_s", float(value), line, words)


def _restarts(value: str, line: int) -> Iterator[Taken]:
    default = re.fullmatch(r"\$\{\w+:-(\d+)\}", value)
    if default is not None:
        words = (
            f"torchrun starts its workers again {plural(int(default[1]), 'time')}, unless {value}"
        )
        yield Taken("settings.max_restarts", int(default[1]), line, f"{words} is set otherwise")
        return
    if not value.isdigit():
        words = f"settings.max_restarts is missing: --max-restarts is {value}, to be filled in"
        yield Taken("", value, line, words)
        return
    words = f"torchrun starts its workers again {plural(int(value), 'time')} (--max-restarts)"
    yield Taken("settings.max_restarts", int(value), line, words)


def starts_torchrun(text: str) -> bool:
    """Return whether a file's command is torchrun's, or one that starts its agents."""
    return bool(_TORCHRUN.search(_plain(text)))


def says_nodes(text: str) -> bool:
    """Return whether a command in a file says the number of nodes itself."""
    return "--nnodes" in _plain(text)
