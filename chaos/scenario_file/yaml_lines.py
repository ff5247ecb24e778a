"""YAML text as plain values, each with its line; every mistake is a problem at its line.

No object is constructed from a tag: the nodes are read as JSON has them.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, StringMark, YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from chaos.errors import ScenarioError, UsageError, raise_when_called

Loc: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class YamlProblem:
    """A mistake at a line (from 1)."""

    line: int
    text: str
    hint: str = ""
    #: the path of the value from the top
    loc: Loc = ()

    @property
    def message(self) -> str:
        """The problem and its remedy, without its line."""
        return f"{self.text}. {self.hint}" if self.hint else self.text


def build_scenario_error(path: Path, problems: Sequence[YamlProblem]) -> ScenarioError:
    """Return the first problem as an error whose message lists the further ones, in line order."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    errors = [ScenarioError(path, mistake.line, mistake.text, mistake.hint) for mistake in ordered]
    first_error = errors[0]
    first_error.args = ("\n".join(str(error) for error in errors),)
    return first_error


TEXT_BYTES = 1 << 20
SAVE = "Save the file as UTF-8."


def load_text(path: Path, file_kind: str, *, max_bytes: int = TEXT_BYTES, hint: str = SAVE) -> str:
    """Return a file's text; `file_kind` names the file in errors, as in "scenario".

    Raises `UsageError` where it cannot be read, and `ScenarioError`, with the line, where it has
    more than `max_bytes` bytes, or is no text, with the `hint`.
    """
    # The limit is on the text, before anything of it is composed: a file of 10 MB took up to 101 s
    # and 1.9 GiB to be refused for the number of its values.
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)  # of a device there is no end
    except OSError as error:
        problem = f"the {file_kind} cannot be read: {error.strerror}"
        raise UsageError(problem, "Check the path.", location=str(path)) from None
    if len(content) > max_bytes:
        line = content.count(b"\n") + 1
        problem = f"the {file_kind} has more than {max_bytes >> 20} MiB"
        raise build_scenario_error(path, [YamlProblem(line, problem, "Is this the right file?")])
    try:
        return content.decode("utf-8-sig")  # some editors write a mark before the text
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise build_scenario_error(
            path, [YamlProblem(line, "this is not UTF-8 text", hint)]
        ) from None


TAG = "tag:yaml.org,2002:"
_LARGEST_WHOLE = 2**63 - 1  # what JSON readers and Ray's own settings can hold
_LENGTH_MAX = 40


class NotPlainError(Exception):
    """A scalar that JSON has no value for, or that does not fit its tag."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def parse_scalar(tag: str, text: str) -> bool | float | str | None:
    """Return the value of a scalar with this (resolved) tag, or raise `NotPlainError`."""
    reader = _READERS.get(tag.removeprefix(TAG))
    if reader is None:
        raise NotPlainError(f"the tag {format_tag(tag)} is not allowed", "Leave it out.")
    return reader(text)


def format_tag(tag: str) -> str:
    """Return a tag as it is written in a file."""
    return f"!!{tag.removeprefix(TAG)}" if tag.startswith(TAG) else tag


def shorten_text(text: str) -> str:
    """Return the beginning of a text that is too long to show."""
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}…"


def _parse_truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise NotPlainError(f"{shorten_text(text)} is not a truth value", "Write true or false.")
    return text.lower() == "true"


def _parse_integer(text: str) -> int:
    digits = text.replace("_", "")
    try:
        # Base 0 knows 0x, 0o and 0b but refuses 012, which YAML 1.2 reads as twelve.
        number = int(digits, 10 if digits.lstrip("+-").isdecimal() else 0)
    except ValueError:
        raise NotPlainError(f"{shorten_text(text)} is not a whole number") from None
    if abs(number) > _LARGEST_WHOLE:
        raise NotPlainError(
            f"{shorten_text(text)} is too large", "Quote it if it is meant as text."
        )
    return number


def _parse_number(text: str) -> float:
    digits = text.replace("_", "").lower()
    if digits.lstrip("+-") in {".inf", ".nan"}:
        digits = "nan"
    try:
        number = float(digits)
    except ValueError:
        raise NotPlainError(f"{shorten_text(text)} is not a number") from None
    if not math.isfinite(number):
        raise NotPlainError(f"{shorten_text(text)} is not a finite number", "Leave the key out.")
    return number


def _build_date_error(text: str) -> NotPlainError:
    shown_text = shorten_text(text)
    return NotPlainError(f"{shown_text} is read as a date", f'Quote it: "{shown_text}".')


def _parse_text(text: str) -> str:
    """Return the text with JSON's escaped surrogate pairs joined."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise NotPlainError(f"{shorten_text(ascii(text))} is half of a character") from None


_READERS: dict[str, Callable[[str], bool | float | str | None]] = {
    "null": lambda _: None,
    "bool": _parse_truth,
    "int": _parse_integer,
    "float": _parse_number,
    "timestamp": raise_when_called(_build_date_error),
    "str": _parse_text,
    "value": _parse_text,  # a lone `=`
}


Plain: TypeAlias = Any  # what JSON has: None, bool, int, float, str, list, dict with str keys

MAX_DEPTH = 40
# Aliases counted: ten lines of YAML can stand for billions of values.
MAX_VALUES = 20_000


@dataclass
class YamlLines:
    """The lines of keys and values, counted from 1."""

    keys: dict[Loc, int] = field(default_factory=dict)
    values: dict[Loc, int] = field(default_factory=dict)

    def find_key_line(self, loc: Loc) -> int:
        """Return the line of a key; without such a key, that of the value around it."""
        return self.keys[loc] if loc in self.keys else self.find_value_line(loc)

    def find_value_line(self, loc: Loc) -> int:
        """Return the line of a value; without such a value, that of the one around it."""
        while loc and loc not in self.values:
            loc = loc[:-1]
        return self.values.get(loc, 1)


@dataclass
class YamlSource:
    """The content of a file, with its lines, and its problems."""

    value: Plain = None
    lines: YamlLines = field(default_factory=YamlLines)
    problems: list[YamlProblem] = field(default_factory=list)
    count: int = 0


def parse_source(text: str) -> YamlSource:
    """Return the content of one YAML 1.2 document; its mistakes are in `problems`."""
    source = YamlSource()
    try:
        with warnings.catch_warnings():
            # YAML 1.2 allows an anchor's name again: later aliases mean the newer one.
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            documents = list(YAML(typ="safe", pure=True).compose_all(text))
    except RecursionError:
        source.problems.append(YamlProblem(1, "the file is nested too deeply to be read"))
    except (YAMLError, ValueError, OverflowError) as error:
        source.problems.append(_build_syntax_problem(error, text))
    else:
        _add_documents(source, documents)
    return source


def _add_documents(source: YamlSource, documents: list[Node | None]) -> None:
    if len(documents) > 1:
        second = documents[1]
        line = 1 if second is None else _find_line(second)
        problem = YamlProblem(line, "a second document begins", "Keep one scenario per file.")
        source.problems.append(problem)
    elif not documents or documents[0] is None:
        hint = "A scenario begins with `scenario:` and `job:`."
        source.problems.append(YamlProblem(1, "the file is empty", hint))
    else:
        value = _NodeReader(source).parse_node(documents[0], ())
        if source.count > MAX_VALUES:
            text = f"the file holds more than {MAX_VALUES} values, aliases counted"
            source.problems = [YamlProblem(_find_line(documents[0]), text)]
        else:
            source.value = value


def _build_syntax_problem(error: Exception, text: str) -> YamlProblem:
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return YamlProblem(line, f"the character {error.character!r} is not allowed in YAML")
    if not isinstance(error, MarkedYAMLError):
        return YamlProblem(1, f"this is not YAML: {error}")
    mark = error.problem_mark or error.context_mark
    last_line = text.rstrip().count("\n") + 1
    if isinstance(mark, StringMark) and mark.index >= len(text.rstrip()) and error.context:
        opening_mark = error.context_mark or mark  # where it was opened, not where the file ends
        line = min(opening_mark.line + 1, last_line)
        delimiter = "quote" if "quoted" in error.context else "bracket"
        return YamlProblem(line, f"this is not YAML: a {delimiter} is never closed")
    problem = error.problem or error.context or "it cannot be read"
    hint = next((hint for sign, hint in _SYNTAX_HINTS.items() if sign in problem), "")
    return YamlProblem(mark.line + 1 if mark else 1, f"this is not YAML: {problem}", hint)


_SYNTAX_HINTS = {
    r"'\t'": "Indent with spaces; YAML does not take tabs.",
    "mapping values are not allowed": "Quote a text that contains `: `.",
    "undefined alias": "Quote a text that begins with `*`.",
}


class _NodeReader:
    """One walk over the nodes, which fills a source."""

    def __init__(self, source: YamlSource) -> None:
        self.source = source
        self.parents: list[Node] = []

    def parse_node(self, node: Node, loc: Loc) -> Plain:
        """Return a node's value; None where it has none, with the problem noted."""
        # Counted as it is read, and not after: an alias is one node, however often it stands, and
        # a few lines can stand for billions of values.
        self.source.count += 1
        if self.source.count > MAX_VALUES:
            return None
        lines = self.source.lines
        has_line = isinstance(node, ScalarNode) and node.start_mark.index < node.end_mark.index
        lines.values[loc] = _find_line(node) if has_line else lines.keys.get(loc, _find_line(node))
        if (refusal := self._find_refusal(node)) is not None:
            self._add_problem(node, loc, *refusal)
            return None
        self.parents.append(node)
        try:
            return self._parse_content(node, loc)
        except NotPlainError as error:
            self._add_problem(node, loc, error.problem, error.hint)
            return None
        finally:
            self.parents.pop()

    def _find_refusal(self, node: Node) -> tuple[str, str] | None:
        if any(node is parent for parent in self.parents):
            return f"the alias *{node.anchor} stands inside what it names", ""
        if len(self.parents) >= MAX_DEPTH:
            return f"this is nested deeper than {MAX_DEPTH} levels", ""
        if isinstance(node, CollectionNode) and _find_tag(node) not in {f"{TAG}map", f"{TAG}seq"}:
            return f"the tag {format_tag(_find_tag(node))} is not allowed", "Leave it out."
        return None

    def _parse_content(self, node: Node, loc: Loc) -> Plain:
        if isinstance(node, MappingNode):
            return self._parse_mapping(node, loc)
        if isinstance(node, SequenceNode):
            return [self.parse_node(item, (*loc, number)) for number, item in enumerate(node.value)]
        return parse_scalar(_find_tag(node), node.value)

    def _parse_mapping(self, node: MappingNode, loc: Loc) -> dict[str, Plain]:
        mapping: dict[str, Plain] = {}
        for key_node, value_node in node.value:
            key = self._parse_key(key_node, loc)
            if key is None:
                continue
            key_loc = (*loc, key)
            # PyYAML keeps the last of two equal keys, without a word.
            if key in mapping:
                first_line = self.source.lines.keys[key_loc]
                hint = f"It stands on line {first_line} already; keep one of them."
                self._add_problem(key_node, loc, f"the key {key!r} is given twice", hint)
                continue
            self.source.lines.keys[key_loc] = _find_line(key_node)
            mapping[key] = self.parse_node(value_node, key_loc)
        return mapping

    def _parse_key(self, node: Node, loc: Loc) -> str | None:
        kind = _find_tag(node).removeprefix(TAG)
        if kind == "str" and isinstance(node, ScalarNode):
            try:
                return _parse_text(node.value)
            except NotPlainError as error:
                self._add_problem(node, loc, error.problem, error.hint)
        elif kind == "merge":
            hint = "Write the keys out."
            self._add_problem(
                node, loc, "`<<` is not part of YAML 1.2: mappings are not merged", hint
            )
        elif isinstance(node, ScalarNode):
            hint = f'Quote it: "{node.value}".'
            self._add_problem(node, loc, f"the key {node.value or '(empty)'} is not text", hint)
        else:
            self._add_problem(node, loc, "a key must be text, got a list or a mapping")
        return None

    def _add_problem(self, node: Node, loc: Loc, text: str, hint: str = "") -> None:
        self.source.problems.append(YamlProblem(_find_line(node), text, hint, loc))


def _find_tag(node: Node) -> str:
    return str(node.tag)


def _find_line(node: Node) -> int:
    line: int = node.start_mark.line + 1
    return line
