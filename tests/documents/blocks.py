"""The fenced blocks of the documents, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "reports/README.md",
    *sorted((ROOT / "scenarios").rglob("*.md")),
    ROOT / "tests/README.md",
    ROOT / "tests/corpus/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROGRAMS = ("chaos", "pytest", "make", "pip", "python", "uv", "uvx", "docker")
_FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_INLINE = re.compile(r"`(?:\.venv/bin/)?((?:chaos|make) [^`]+)`")
_CODE = re.compile(r"`([^`]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


@dataclass(frozen=True)
class Block:
    """One fenced block: its document, the line of its fence, its language and its text."""

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command as a reader would type it, without its path and its remarks."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where} {self.text}"

    @property
    def program(self) -> str:
        return self.text.partition(" ")[0]

    @property
    def words(self) -> list[str]:
        """What the program is called with, without where its output goes."""
        words = shlex.split(self.text)[1:]
        return words[: words.index(">")] if ">" in words else words


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of all documents; with languages, those alone."""
    return [
        Block(document, text[: found.start()].count("\n") + 1, found[1], found[2])
        for document in DOCUMENTS
        for text in [document.read_text(encoding="utf-8")]
        for found in _FENCE.finditer(text)
        if not languages or found[1] in languages
    ]


def commands() -> list[Command]:
    """Return every command in a block of the shell's."""
    return [
        Command(str(block), text)
        for block in blocks("sh", "console")
        for line in block.text.splitlines()
        if (text := _command(line, is_transcript=block.language == "console"))
    ]


def inline_commands() -> list[Command]:
    """Return the commands that the prose names, whole or in part."""
    return [
        Command(str(document.relative_to(ROOT)), " ".join(found[1].split()))
        for document in DOCUMENTS
        for found in _INLINE.finditer(_FENCE.sub("", document.read_text(encoding="utf-8")))
    ]


def options_in(text: str) -> list[str]:
    """Return the long options that a text names, without their values."""
    return _OPTION.findall(text)


def inline_options() -> dict[str, str]:
    """Return a document for each long option that the prose names, notes left out."""
    return {
        option: str(document.relative_to(ROOT))
        for document in DOCUMENTS
        if document.parent.name != "notes"  # which name options that were cut
        for span in _CODE.findall(_FENCE.sub("", document.read_text(encoding="utf-8")))
        for option in options_in(span)
    }


def block_of(page: str, language: str, begins: str) -> str:
    """Return the one block of a page that begins so."""
    (text,) = (
        block.text
        for block in blocks(language)
        if block.document.name == page and block.text.startswith(begins)
    )
    return text


def _command(line: str, *, is_transcript: bool) -> str:
    """Return the command of a line; empty where it is output."""
    if is_transcript and not line.startswith("$ "):
        return ""
    bare = line.removeprefix("$ ").removeprefix(".venv/bin/")
    return re.sub(r"\s+#.*", "", bare).strip()


def looks_like_a_command(text: str) -> Iterator[str]:
    """Yield the lines of a text that a reader would type."""
    for line in text.splitlines():
        bare = line.removeprefix("$ ").removeprefix(".venv/bin/")
        if line.startswith("$ ") or bare.split(" ")[0] in PROGRAMS:
            yield line
