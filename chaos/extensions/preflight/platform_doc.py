"""A document of a platform, in which each value is asked for with its line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.scenario_file.yaml_lines import YamlSource
from chaos.wording import plural


class FileValue(NamedTuple):
    """A value that was taken from a file."""

    #: in a question, such as `job.nodes`; empty for what only stands in words
    key: str
    value: Any
    line: int
    description: str
    #: a template, a variable or the user is yet to fill it in
    is_unfilled: bool = False


class PlatformDocument:
    """A document, in which each value is asked for with its line."""

    def __init__(self, source: YamlSource, offset: int) -> None:
        self._source, self._offset = source, offset

    def get_value(self, *loc: str | int) -> Any:  # noqa: ANN401 - what YAML has
        node: Any = self._source.value
        for part in loc:
            if isinstance(part, int):
                node = node[part] if isinstance(node, list) and part < len(node) else None
            else:
                node = node.get(part) if isinstance(node, dict) else None
        return node

    def line(self, *loc: str | int) -> int:
        return self._source.lines.find_key_line(loc) + self._offset

    def integer(self, *loc: str | int) -> int | None:
        value = self.get_value(*loc)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def mapping(self, *loc: str | int) -> Mapping[Any, Any]:
        value = self.get_value(*loc)
        return value if isinstance(value, dict) else {}

    def sequence(self, *loc: str | int) -> Sequence[Any]:
        value = self.get_value(*loc)
        return value if isinstance(value, list) else ()

    def number(self, *loc: str | int, name: str) -> "WholeNumber":
        """Return a whole number, or that one is yet to be filled in (`$NUM_NODES`)."""
        value = self.get_value(*loc)
        if isinstance(value, str) and not value.strip().isdigit():
            words = f"{name} is missing: {loc[-1]} is {value}, to be filled in"
            return WholeNumber(None, FileValue("", value, self.line(*loc), words, is_unfilled=True))
        if isinstance(value, str):
            value = int(value)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return WholeNumber(value if is_whole else None, None)


_EXPRESSION = re.compile(r"(?<!\$)\{\{.*?\}\}")


def find_template_values(text: str, offset: int) -> Iterator[FileValue]:
    """Yield each line of a YAML with a value that a template is yet to fill in.

    Braces in a command are left alone: `docker inspect --format '{{.State.Status}}'` has its own.
    """
    for number, line in _list_lines_of_fields(text):
        plain = line.partition("#")[0] if line.lstrip().startswith("#") else line
        for match in _EXPRESSION.finditer(plain):
            key = re.search(r"([\w.-]+):[^:]*$", plain[: match.start()])
            owner = f"{key[1]} is " if key else ""
            words = f"{owner}{match[0]}, to be filled in: render the template first"
            yield FileValue("", match[0], number + offset, words, is_unfilled=True)


_BLOCK = re.compile(r"[\w.-]+:\s+[|>][-+\d]*\s*$|-\s+[|>][-+\d]*\s*$")
_COMMAND = re.compile(r"[\"']?(?:commands?|args|run|setup|entrypoint)[\"']?:(?:\s|$)")


class _NumberedLine(NamedTuple):
    """A line of a file, and its number from 1 on."""

    number: int
    text: str


def _list_lines_of_fields(text: str) -> Iterator[_NumberedLine]:
    """Yield the lines of a YAML that are in no command and no block of text, with their numbers."""
    skipped_indent: int | None = None
    is_list_skipped = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        content = line.lstrip(" ")
        indent = len(line) - len(content)
        is_item = is_list_skipped and indent == skipped_indent and content.startswith("- ")
        if skipped_indent is not None and (indent > skipped_indent or is_item):
            continue
        skipped_indent = None
        field = content.lstrip("- ")
        is_command = _COMMAND.match(field) is not None
        if is_command or _BLOCK.search(content):
            # A list may stand as deep as its key, which `- ` moves to the right.
            is_bare = field.startswith(("|", ">"))
            skipped_indent = indent + (0 if is_bare else len(content) - len(field))
            is_list_skipped = is_command
        if not is_command:
            yield _NumberedLine(number, line)


class WholeNumber(NamedTuple):
    """A number of a document, or the words for one that is missing."""

    value: int | None
    missing: FileValue | None


def list_nodes(count: int, line: int, words: str) -> Iterator[FileValue]:
    """Yield the nodes of a job, if there are any."""
    if count > 0:
        yield FileValue("job.nodes", count, line, words)


# -- the command that a file starts ------------------------------------------------------------

_TORCHRUN = re.compile(
    r"\btorchrun\b|torch\.distributed\.(?:run|launch)\b|\baccelerate launch\b|\bft_launcher\b"
)
_RESTARTS = re.compile(r"--max[-_]restarts[=\s]+(\S+)")
_SIZES = re.compile(r"--nnodes[=\s]+(\S+)")
_JOIN = re.compile(r"join_timeout=(\d{1,9})")


def parse_command(text: str) -> Iterator[FileValue]:
    """Yield what a command of torchrun in a file says: its restarts, and the nodes it needs.

    A command may be a list: `["torchrun", "--max-restarts=3"]`, or an item a line.
    """
    plain = _plain(text)
    for pattern, parse in (
        (_RESTARTS, _parse_restarts),
        (_SIZES, _parse_sizes),
        (_JOIN, _parse_join_timeout),
    ):
        for match in pattern.finditer(plain):
            yield from parse(match[1], plain.count("\n", 0, match.start()) + 1)


def _plain(text: str) -> str:
    """Return a text line for line, without comments and the signs of lists."""
    lines = (re.sub(r"^\s*-\s|[\"',\[\]]|\\$", " ", line) for line in text.splitlines())
    return "\n".join("" if line.lstrip().startswith("#") else line for line in lines)


def _parse_sizes(value: str, line: int) -> Iterator[FileValue]:
    min_nodes, _, max_nodes = value.partition(":")
    if max_nodes.isdigit() and min_nodes.isdigit() and int(min_nodes) < int(max_nodes):
        words = f"it goes on with {min_nodes} (--nnodes)"
        yield FileValue("job.min_nodes", int(min_nodes), line, words)


def _parse_join_timeout(value: str, line: int) -> Iterator[FileValue]:
    words = f"agents wait {value} s for each other (join_timeout)"
    yield FileValue("settings.join_timeout_s", float(value), line, words)


def _parse_restarts(value: str, line: int) -> Iterator[FileValue]:
    default = re.fullmatch(r"\$\{\w+:-(\d+)\}", value)
    if default is not None:
        words = (
            f"torchrun starts its workers again {plural(int(default[1]), 'time')}, unless {value}"
        )
        yield FileValue("settings.max_restarts", int(default[1]), line, f"{words} is set otherwise")
        return
    if not value.isdigit():
        words = f"settings.max_restarts is missing: --max-restarts is {value}, to be filled in"
        yield FileValue("", value, line, words, is_unfilled=True)
        return
    words = f"torchrun starts its workers again {plural(int(value), 'time')} (--max-restarts)"
    yield FileValue("settings.max_restarts", int(value), line, words)


def starts_torchrun(text: str) -> bool:
    """Return whether a file's command is torchrun's, or one that starts its agents."""
    return bool(_TORCHRUN.search(_plain(text)))


def states_nodes(text: str) -> bool:
    """Return whether a command in a file says the number of nodes itself."""
    return "--nnodes" in _plain(text)
