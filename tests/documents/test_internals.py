"""The pages on how chaos works inside name files and code that are there."""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.documents.blocks import ROOT

PAGES = ["life-of-an-event", "life-of-an-audit", "processes", "probe", "digests"]
MODULES = sorted((ROOT / "chaos").rglob("*.py"))
_FILE = re.compile(r"[\w/]+\.py\b")
_NAMED = re.compile(r"([\w/]+\.py):([\w.]+)")
_CODE = re.compile(r"`([^`\n]+)`")
_BLOCK = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_CLASS = re.compile(r"\b(?:[A-Z]\w+\.[a-z_]\w*|(?:[A-Z][a-z0-9]+){2,})\b")
LIBRARIES = ("concurrent", "os", "pickle", "threading", "torch")
# What is not chaos's: by the name that a page uses, where it is.
THEIRS = {
    "Booster.update": "",  # XGBoost's and LightGBM's
    "CallbackList": "",  # Keras's
    "DataLoader": "torch.utils.data.DataLoader",
    "RayTrainWorker": "",  # Ray Train's
    "Tensor.backward": "torch.Tensor.backward",
    "TrainController": "",  # Ray Train's
}


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


def files_of(name: str) -> list[Path]:
    """Return the files of chaos that a page means by the end of a path."""
    wanted = f"/{name.removeprefix('chaos/')}"
    return [module for module in MODULES if str(module).endswith(wanted)]


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_bytes())


def members(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a module or a class defines: functions, classes, values, what `self` is given."""
    for inner in ast.walk(node) if isinstance(node, ast.ClassDef) else ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef):
            yield inner.name, inner
        targets = inner.targets if isinstance(inner, ast.Assign) else []
        targets = [inner.target] if isinstance(inner, ast.AnnAssign) else targets
        for target in targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield target.id if isinstance(target, ast.Name) else target.attr, inner


def defines(module: Path, dotted: str) -> bool:
    node: ast.AST | None = tree(module)
    for name in dotted.split("."):
        node = None if node is None else dict(members(node)).get(name)
    return node is not None


@cache
def classes() -> dict[str, set[str]]:
    """Return the members of all classes of chaos, by the class's name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= {name for name, _ in members(node)}
    return found


@cache
def words() -> set[str]:
    """Return every name in the code of chaos, and every text that is one word."""
    found = {part for module in MODULES for part in module.with_suffix("").parts}
    for node in (node for module in MODULES for node in ast.walk(tree(module))):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name):
                found.update(name.split("."))
            case ast.Constant(value=str(text)):
                found.add(text)
            case _:
                pass
    return found


def is_there(name: str) -> bool:
    """Return whether a name is one of chaos's code, or of a library's."""
    name = THEIRS.get(name, name) or "str"
    head, *rest = name.split(".")
    if head in classes() and rest:
        return rest[0] in classes()[head]
    return (
        name in words() or _is_a_librarys(name) or (bool(rest) and set(name.split(".")) <= words())
    )


def _is_a_librarys(dotted: str) -> bool:
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for name in parts[end:]:
            found = getattr(found, name, None)
        return found is not None
    return False


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_a_page_names_is_there(name: str) -> None:
    assert [file for file in _FILE.findall(page(name)) if not files_of(file)] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_name_is_defined_in_the_file_that_it_is_given_with(name: str) -> None:
    named = set(_NAMED.findall(page(name)))

    assert named
    assert [
        f"{file}:{dotted}"
        for file, dotted in sorted(named)
        if not any(defines(module, dotted) for module in files_of(file))
    ] == []


@pytest.mark.timeout(300)  # torch is imported
@pytest.mark.parametrize("name", PAGES)
def test_every_other_name_is_one_of_the_code(name: str) -> None:
    prose = _BLOCK.sub("", page(name))
    spans = {span.removesuffix("()") for span in _CODE.findall(prose)}
    names = {
        span for span in spans if _NAME.fullmatch(span) and not span.endswith((".py", ".json"))
    }
    drawn = {found for block in _BLOCK.findall(page(name)) for found in _CLASS.findall(block)}

    assert [found for found in sorted(names | drawn) if not is_there(found)] == []


@pytest.mark.timeout(300)
def test_a_name_that_is_gone_is_noticed() -> None:
    assert not files_of("probe/gone.py")
    assert not defines(files_of("probe/steps.py")[0], "StepHook.gone")
    assert not is_there("StepHook.gone")
    assert not is_there("torch.nn.Gone")
    assert is_there("torch.nn.Module.zero_grad")
