"""How large the code is, in the measures by which other projects were measured beside it.

`python -m tests.tools.measures [FOLDER ...]` prints a table of Markdown: of `chaos/`, package by
package, and in all; or of other folders of Python, such as an installed library's. Of `chaos/` it
prints the gauges as well, which may only fall (`tests.tools.gauges`).
"""

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.tools import gauges

ROOT = Path(__file__).parents[2]
HEAD = (
    "", "files", "lines", "median file", "p90 file", "largest", "median fn", "p90 fn", "largest fn",
    "comments", "docstrings and comments", "imports",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One file: its lines, those of its functions, and how many of it say what."""

    lines: int
    functions: tuple[int, ...]
    comments: int
    docs: int
    imports: int

    @classmethod
    def of(cls, text: str) -> "Measured":
        """Count in a module's text; a function's length includes its docstring."""
        tree = ast.parse(text)
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = {t.start[0] for t in tokens if t.type == tokenize.COMMENT and _is_alone(t)}
        return cls(
            text.count("\n"),
            tuple(_length(node) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)),
            len(comments),
            sum(_docstring(node) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)),
            sum(_length(node) for node in ast.walk(tree) if isinstance(node, _IMPORTS)),
        )


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOCUMENTED = (ast.Module, ast.ClassDef, *_FUNCTIONS)
_IMPORTS = (ast.Import, ast.ImportFrom)


def _is_alone(token: tokenize.TokenInfo) -> bool:
    return not token.line[: token.start[1]].strip()


def _length(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _docstring(node: ast.AST) -> int:
    body = getattr(node, "body", [])
    is_there = bool(body) and isinstance(body[0], ast.Expr) and _is_text(body[0].value)
    return _length(body[0]) if is_there else 0


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def row(name: str, files: Sequence[Measured]) -> str:
    """Return a row of the table."""
    sizes = sorted(file.lines for file in files)
    functions = sorted(n for file in files for n in file.functions) or [0]
    lines = sum(sizes)
    comments, docs = (sum(getattr(f, what) for f in files) for what in ("comments", "docs"))
    imports = sum(file.imports for file in files)
    cells = (
        name, f"{len(files):,}", f"{lines:,}", _median(sizes), _p90(sizes), sizes[-1],
        _median(functions), _p90(functions), functions[-1],
        f"{comments / lines:.1%}", f"{(comments + docs) / lines:.0%}", f"{imports / lines:.1%}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _median(numbers: Sequence[int]) -> int:
    return int(statistics.median(numbers))


def _p90(numbers: Sequence[int]) -> int:
    return numbers[int(0.9 * (len(numbers) - 1))]


def measured(folder: Path) -> dict[Path, Measured]:
    """Return the measures of each module below a folder."""
    return {
        path.relative_to(folder): Measured.of(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def single_importers(folder: Path) -> int:
    """Return how many modules of a package are imported by one other module of it alone."""
    importers: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        importers.update(set(_imported(path, folder.name)))
    modules = {_module(path, folder) for path in folder.rglob("*.py")}
    return sum(importers[module] == 1 for module in modules)


def _module(path: Path, folder: Path) -> str:
    return ".".join(path.relative_to(folder.parent).with_suffix("").parts)


def _imported(path: Path, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main(folders: Sequence[Path]) -> None:
    """Print the table."""
    lines = [f"| {' | '.join(HEAD)} |", f"| --- {'| --: ' * (len(HEAD) - 1)}|"]
    for folder in folders or [ROOT / "chaos"]:
        every = measured(folder)
        if not folders:
            packages = {path: gauges.package_of(path.as_posix()) for path in every}
            for package in sorted({*packages.values()} - {"."}):
                inside = [file for path, file in every.items() if packages[path] == package]
                lines.append(row(package, inside))
        lines.append(row(f"**{folder.name}**", list(every.values())))
        lines.append(f"\nimported by one other module alone: {single_importers(folder)}\n")
    if not folders:
        lines.append(gauges.describe(gauges.measure(ROOT), gauges.load_recorded()))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
