"""Pages and code use the words of the glossary."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.dialect import INSTEAD

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "chaos").rglob("*.j2")),
]
PACKAGES = sorted({module.parent for module in (ROOT / "chaos").rglob("*.py")})
every_package = pytest.mark.parametrize(
    "package", PACKAGES, ids=[str(package.relative_to(ROOT)) for package in PACKAGES]
)
# Code that these words are names in, and what programs print.
CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|\{[{%#].*?[#%}]\}", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_words_of_the_glossary(page: Path) -> None:
    prose = CODE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))
    found = [
        f"{page.name}:{prose[: hit.start()].count(chr(10)) + 1}: '{hit[0]}': say {better}"
        for word, better in INSTEAD.items()
        for hit in re.finditer(rf"\b(?:{word})\b", prose, re.IGNORECASE)
    ]

    assert not found, "\n".join(found)


def prose(module: Path) -> Iterator[tuple[int, str]]:
    """Yield comments, docstrings and texts of a module with their lines, without code in them."""
    source = module.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = token.type == tokenize.STRING and " " in token.string
        if is_text or token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`\n]*`|\{[^{}]*\}", "", token.string)


@every_package
def test_a_module_uses_the_words_of_the_glossary(package: Path) -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line + text[: hit.start()].count(chr(10))}: "
        f"'{hit[0]}': say {better}"
        for module in package.glob("*.py")
        for line, text in prose(module)
        for word, better in INSTEAD.items()
        for hit in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE)
    ]

    assert not found, "\n".join(found)


@every_package
def test_a_docstring_begins_with_a_noun_or_a_verb(package: Path) -> None:
    """Return, a noun phrase, or `Whether` of a property: no what, how, where, give, have, tell."""
    headless = re.compile(
        r"(What|How|Where|Why|Who|Which|When|Give|Have|Say|Tell)\b[^?]*$", re.DOTALL
    )
    found = [
        f"{module.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text.partition(chr(10))[0]}"
        for module in package.glob("*.py")
        for node in ast.walk(ast.parse(module.read_bytes()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (text := ast.get_docstring(node) or "")
        and headless.match(text.partition("\n")[0])
    ]

    assert not found, "\n".join(found)
