"""How easily the code is read, in counts that may only fall.

`tests/meta/gauges.json` has today's. `python -m tests.tools.gauges` prints both, and `--lower`
writes the counts that have fallen; it never writes one that has risen, except the lines of one
package that came from another.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from tests.tools.dialect import INSTEAD

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/meta/gauges.json"
ODD_NAMES = frozenset(
    [
        "of", "by", "its", "it", "mine", "ours", "theirs", "own", "one", "other", "others",
        "found", "seen", "due", "told", "said", "made", "given", "has", "had", "there", "here",
        "now", "after", "before", "every", "known", "held", "kept", "shown", "asked", "named",
        "what", "who", "where", "how", "when", "again", "away", "apart", "beside", "below",
        "above", "since", "until", "most", "least", "more",
    ]
)  # fmt: skip
#: a function's name neither begins nor ends with one of them
PREPOSITIONS = frozenset(
    [
        "of", "in", "by", "at", "on", "with", "without", "from", "as", "to", "before", "after",
        "beside", "for", "under", "over", "within", "between", "since", "until", "above",
        "below", "beyond", "behind", "against", "like", "but", "than",
    ]
)  # fmt: skip
#: nor begins with one of them
PARTICIPLES = frozenset(
    [
        "told", "said", "seen", "found", "made", "given", "held", "kept", "shown", "asked",
        "named", "known", "begun", "done", "gone", "left", "lost", "joined", "judged", "placed",
        "moved", "marked", "stored", "opened", "written", "read", "ended", "started", "settled",
        "due", "apart", "alike", "own", "other", "others", "one", "ours", "theirs", "mine",
        "here", "there", "now", "later", "again", "once", "first", "last", "whole", "alone",
        "even", "likewise", "such", "each", "every", "most", "more", "least", "rest", "still",
    ]
)  # fmt: skip
#: the facts by which code outside of a launcher asks which parts it has
LAUNCHER_PARTS = ("has_reports", "has_cluster", "has_call", "has_driver", "features")
LONG_SENTENCE = 30
LONG_TEXT = 30
Gauges: TypeAlias = Mapping[str, "float | Mapping[str, float]"]
Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield each variable that is assigned, and each parameter, as often as it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield node.arg


def function_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions and methods, without Python's own such as `__init__`."""
    for node in ast.walk(tree):
        if isinstance(node, Functions) and not node.name.startswith("__"):
            yield node.name


def is_odd(name: str) -> bool:
    """Return whether a name is only a function word or a participle."""
    return name.lstrip("_") in ODD_NAMES


def is_odd_function(name: str) -> bool:
    """Return whether a function's name begins or ends with a preposition, or is a participle's."""
    words = name.strip("_").split("_")
    return words[0] in PREPOSITIONS | PARTICIPLES or words[-1] in PREPOSITIONS


def is_dialect(name: str) -> bool:
    """Return whether a name has a word that pages and comments may not use."""
    return any(
        re.fullmatch(word, part)
        for word in INSTEAD
        if " " not in word
        for part in name.lower().split("_")
    )


def asks_for_features(node: ast.AST) -> bool:
    """Return whether an expression asks which parts a launcher has."""
    if isinstance(node, ast.Attribute):
        return (
            node.attr in LAUNCHER_PARTS
            and isinstance(node.ctx, ast.Load)
            and any(word in ast.unparse(node.value).lower() for word in ("facts", "launcher"))
        )
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.In | ast.NotIn)
        and isinstance(node.comparators[0], ast.Attribute)
        and node.comparators[0].attr == "features"
        and "facts" in ast.unparse(node.comparators[0].value).lower()
    )


def outside_assignments(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that are assigned to an object from outside of it."""
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            match target:
                case ast.Attribute(value=ast.Name(id=owner)) if owner not in ("self", "cls"):
                    yield target
                case _:
                    pass


def late_callables(trees: Collection[ast.AST]) -> Iterator[ast.Attribute]:
    """Yield the functions that are assigned to an object of these modules after it was made.

    Nobody finds who calls them. A method of a library's that is replaced is none: the function
    that does it takes the original by its name.
    """
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    slots = {slot for cls in classes for slot in callable_slots(cls)}
    methods = {name for cls in classes for name in method_names(cls)}
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, Functions))
    for function in functions:
        originals = {
            node.attr if isinstance(node, ast.Attribute) else node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Constant)
            or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
        }
        for node in ast.walk(function):
            for target in assigned_attributes(node):
                is_outside = ast.unparse(target.value) not in ("self", "cls")
                if is_outside and target.attr in slots | (methods - originals):
                    yield target


def method_names(cls: ast.ClassDef) -> set[str]:
    """Return the names of a class's methods, without properties."""
    return {
        node.name
        for node in cls.body
        if isinstance(node, Functions)
        and not any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)
    }


def callable_slots(cls: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of a class that are called, or declared to be, and are no methods."""
    methods = method_names(cls)
    for node in ast.walk(cls):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                if name not in methods and not cls.bases:  # else it may be inherited
                    yield name
            case ast.AnnAssign(target=ast.Attribute(attr=name) | ast.Name(id=name)):
                if "Callable" in ast.unparse(node.annotation):
                    yield name
            case ast.Assign(value=ast.Lambda()):
                yield from (target.attr for target in assigned_attributes(node))
            case _:
                pass


def assigned_attributes(node: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    for target in [node.target] if isinstance(node, ast.AnnAssign) else targets:
        for part in target.elts if isinstance(target, ast.Tuple) else (target,):
            if isinstance(part, ast.Attribute):
                yield part


def is_bare_tuple(node: ast.AST) -> bool:
    """Return whether an annotation is such as `tuple[int, int]`, in place of a type."""
    match node:
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=elements)):
            kinds = {element.id for element in elements if isinstance(element, ast.Name)}
            is_all = len([e for e in elements if isinstance(e, ast.Name)]) == len(elements)
            return is_all and "int" in kinds and kinds <= {"int", "float", "str", "bool"}
        case _:
            return False


def share(parts: Iterable[bool]) -> float:
    """Return the share of what is true, in per cent with one decimal."""
    flags = list(parts)
    return round(100 * sum(flags) / len(flags), 1) if flags else 0.0


def repeated_classes(trees: Iterable[ast.AST]) -> int:
    """Return how many class names are defined more than once."""
    names = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    return sum(count > 1 for count in names.values())


def prose_of(page: str) -> str:
    """Return the running text of a page of Markdown: no code, table, heading or list mark."""
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", page, flags=re.DOTALL)
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "!!!")))
    text = re.sub(r"`[^`\n]*`", "code", "\n".join(lines))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"(?m)^\s*(?:[-*>]|\d+\.)\s+", "\n", text)


def sentence_lengths(page: str) -> Iterator[int]:
    """Yield the number of words in each sentence of a page."""
    for paragraph in re.split(r"\n\s*\n", prose_of(page)):
        for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(paragraph.split())):
            if words := len(sentence.split()):
                yield words


def is_assert_on_wording(node: ast.AST) -> bool:
    """Return whether a node is an assert on wording: on a text of thirty characters, with a space.

    A key, a path and a name of that length are no wording, and neither is what an assert says where
    it fails.
    """
    return isinstance(node, ast.Assert) and any(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and len(part.value) >= LONG_TEXT
        and " " in part.value
        for part in ast.walk(node.test)
    )


def list_module_names(paths: Iterable[Path]) -> list[str]:
    """Return the names of modules, of which several may be one."""
    return list(filter(None, map(name_module, paths)))


def name_module(path: Path) -> str | None:
    """Return a module's name: for a package its own, or None where its `__init__` has no code."""
    if path.stem != "__init__":
        return None if path.stem == "__main__" else path.stem
    tree = ast.parse(path.read_text(encoding="utf-8"))
    has_code = any(isinstance(node, (*Functions, ast.ClassDef)) for node in tree.body)
    return path.parent.name if has_code else None


def find_module_name(test: Path, names: Collection[str]) -> str | None:
    """Return the longest module name that a test file bears: `test_<module>[_<topic>].py`."""
    topic = test.stem.removeprefix("test_")
    matching_names = [n for n in names if topic == n or topic.startswith(f"{n}_")]
    return max(matching_names, key=len, default=None)


def list_test_helpers(tests: Path) -> list[Path]:
    """Return the modules that tests are made with, which have tests of their own; no job."""
    return [
        path
        for path in sorted(tests.rglob("*.py"))
        if not path.stem.startswith(("test_", "conftest"))
        and not {"jobs", "standins"} & {*path.relative_to(tests).parts}
    ]


def loaded_modules() -> int:
    """Return how many modules of chaos are loaded for `chaos audit`, before a job is started."""
    code = "import sys, chaos.cli.audit; print(sum(m.startswith('chaos.') for m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def by_package(
    trees: Mapping[str, ast.AST],
    names: Callable[[ast.AST], Iterator[str]],
    odd: Callable[[str], bool],
) -> Mapping[str, float]:
    """Return, for each package, the share of its names that are odd."""
    flags: dict[str, list[bool]] = {}
    for path, tree in trees.items():
        flags.setdefault(package_of(path), []).extend(odd(name) for name in names(tree))
    return {package: share(flags[package]) for package in sorted(flags)}


def package_of(path: str) -> str:
    """Return the package or extension of a module by its path below `chaos/`; `.` for the top."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 1 if is_core(path) else 2]) or "."


def is_core(path: str) -> bool:
    """Return whether a module is none of an extension."""
    return not path.startswith("extensions/")


def measure(root: Path) -> Gauges:
    """Return the gauges of a checkout."""
    texts = {
        path.relative_to(root / "chaos").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / "chaos").rglob("*.py"))
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines: Counter[str] = Counter()
    for path, text in texts.items():
        lines[package_of(path)] += text.count("\n")
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    pages = [p.read_text(encoding="utf-8") for p in sorted((root / "docs").rglob("*.md"))]
    modules = list_module_names(root / "chaos" / path for path in texts)
    helpers = list_module_names(list_test_helpers(root / "tests"))
    tests = sorted((root / "tests").rglob("test_*.py"))
    tested = {find_module_name(test, {*modules}) for test in tests}
    test_nodes = (
        node
        for path in sorted((root / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )
    return {
        "odd names, %": by_package(trees, bound_names, is_odd),
        "odd function names, %": by_package(trees, function_names, is_odd_function),
        "names in words that pages may not use": sum(
            map(is_dialect, (name for tree in trees.values() for name in bound_names(tree)))
        ),
        "class names defined twice": repeated_classes(trees.values()),
        "questions about a launcher's features outside launch/": sum(
            asks_for_features(node) for path, node in nodes if not path.startswith("launch/")
        ),
        "attributes assigned from outside": sum(
            1
            for path, tree in trees.items()
            if not path.endswith("compat.py")
            for _ in outside_assignments(tree)
        ),
        "functions assigned from outside in probe and guard": sum(
            1
            for _ in late_callables(
                [tree for path, tree in trees.items() if {"probe", "guard"} & {*path.split("/")}]
            )
        ),
        "bare tuples": sum(is_bare_tuple(node) for _, node in nodes),
        "lines": dict(sorted(lines.items())),
        "lines of the core": sum(t.count("\n") for p, t in texts.items() if is_core(p)),
        "modules loaded for an audit": loaded_modules(),
        "words in docs": sum(len(page.split()) for page in pages),
        f"sentences above {LONG_SENTENCE} words, %": share(
            length > LONG_SENTENCE for page in pages for length in sentence_lengths(page)
        ),
        "test files without a module of their name": sum(
            find_module_name(test, {*modules, *helpers}) is None for test in tests
        ),
        "modules without a test file of their name, %": share(
            name not in tested for name in modules
        ),
        "asserts on wording": sum(map(is_assert_on_wording, test_nodes)),
    }


def is_above(value: object, before: object) -> bool:
    """Return whether a count is above another; False where one of them is no count."""
    return isinstance(value, int | float) and isinstance(before, int | float) and value > before


def find_worse(actual: Gauges, recorded: Gauges) -> Iterator[str]:
    """Yield, in words, each gauge that is above what is recorded."""
    for name, value in actual.items():
        before = recorded.get(name, 0)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            for package, count in value.items():
                if count > before.get(package, 0):
                    yield f"{name} of {package}: {count:,}, at most {before.get(package, 0):,}"
        elif is_above(value, before):
            yield f"{name}: {value:,}, at most {before:,}"


def lower_recorded(actual: Gauges, recorded: Gauges) -> Gauges:
    """Return what to record: never more than before, but for lines that moved between packages."""
    fresh: dict[str, float | Mapping[str, float]] = {}
    for name, value in actual.items():
        before = recorded.get(name, value)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            may_move = name == "lines" and sum(value.values()) <= sum(before.values())
            fresh[name] = {
                package: count if may_move else min(count, before.get(package, count))
                for package, count in value.items()
            }
        elif isinstance(value, int | float) and isinstance(before, int | float):
            fresh[name] = min(value, before)
    return fresh


def load_recorded() -> Gauges:
    """Return the gauges that the file has; empty without one."""
    if not RECORDED.exists():
        return {}
    loaded: Gauges = json.loads(RECORDED.read_text(encoding="utf-8"))
    return loaded


def describe(actual: Gauges, recorded: Gauges) -> str:
    """Return both as a table."""
    rows = [f"{'':58}{'today':>10}{'recorded':>10}"]
    for name, value in actual.items():
        before = recorded.get(name, {})
        parts = value.items() if isinstance(value, Mapping) else [("", value)]
        for package, count in parts:
            known = before.get(package) if isinstance(before, Mapping) else before
            rows.append(
                f"{f'{name} {package}':58}{count:>10,}{known if known is not None else '':>10}"
            )
    return "\n".join(rows)


def main() -> int:
    """Print the gauges, or lower the recorded ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lower", action="store_true", help="record what has fallen")
    options = parser.parse_args()
    actual = measure(ROOT)
    if options.lower:
        text = json.dumps(lower_recorded(actual, load_recorded()), indent=2)
        RECORDED.write_text(f"{text}\n", encoding="utf-8")
    problems = list(find_worse(actual, load_recorded()))
    sys.stdout.write("\n".join([describe(actual, load_recorded()), *problems, ""]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
