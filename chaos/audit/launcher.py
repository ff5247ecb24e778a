"""The launcher that a script is written for, as its own text shows it."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from chaos.model.launcher import Launcher

_JOINS = frozenset({"init_process_group", "init_device_mesh"})
# Classes that join the group of processes by themselves, by the package that they come from.
_JOINS_ITSELF = {
    "accelerate": ("Accelerator",),
    "transformers": ("Trainer", "Seq2SeqTrainer"),
    "trl": ("Trainer",),
    "lightning": ("Trainer", "Fabric", "LightningCLI"),
    "pytorch_lightning": ("Trainer", "LightningCLI"),
    "lightning_fabric": ("Fabric",),
    "deepspeed": ("initialize", "init_distributed"),
}

Read = Callable[[str], str | None]


def found_launcher(script: Path) -> Launcher:
    """Return the launcher of a script, as it and the modules in its folder show it.

    One that is not UTF-8 shows nothing. Raises `OSError` if it cannot be read.
    """
    try:
        text = script.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return "ray"
    return launcher_of(text, modules_beside(script))


def modules_beside(script: Path) -> Read:
    """Return a function from a module's name to its text, None where no file beside it has it."""

    def read(name: str) -> str | None:
        path = script.parent.joinpath(*name.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            try:
                return file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
        return None

    return read


def launcher_of(source: str, read: Read = lambda _: None) -> Launcher:
    """Return torchrun for a script that trains in a group of processes and knows nothing of Ray.

    The script's own text decides, where it imports Ray or joins a group. Otherwise the modules
    that it imports and that `read` knows do, with Ray before all else: a Ray Train script may
    keep its trainer in a module of its own, beside a train loop that joins a group.
    """
    first = _Text.of(source)
    if first.knows_ray or first.joins:
        return "ray" if first.knows_ray else "torchrun"
    texts = list(_imported(first, read))
    if any(text.knows_ray for text in texts):
        return "ray"
    return "torchrun" if any(text.joins for text in texts) else "ray"


def _imported(first: "_Text", read: Read) -> Iterator["_Text"]:
    """Yield the texts of all modules that a text imports, each once, with their own imports."""
    seen: set[str] = set()
    waiting = [*first.modules]
    while waiting:
        name = waiting.pop()
        source = None if name in seen else read(name)
        seen.add(name)
        if source is not None:
            text = _Text.of(source)
            waiting += text.modules
            around = (name, name.rpartition(".")[0])  # a package, or the one that a module is in
            waiting += [f"{package}.{own}" for package in around for own in text.siblings]
            yield text


class _Text:
    """The imports and the calls of one module."""

    def __init__(self, tree: ast.AST) -> None:
        self.modules: list[str] = []
        self.siblings: list[str] = []  # modules of the same package
        self._packages: dict[str, str] = {}  # the package behind each name
        self._originals: dict[str, str] = {}  # what `import x as y` and `from m import x as y` mean
        self._used: list[ast.expr] = []  # what is called, or is the base of a class
        for node in ast.walk(tree):
            self._take(node)

    @classmethod
    def of(cls, source: str) -> "_Text":
        """Return the text of a module; one that is not Python has no imports and no calls."""
        try:
            return cls(ast.parse(source))
        except (SyntaxError, ValueError):
            return cls(ast.Module(body=[], type_ignores=[]))

    def _take(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self._import(alias.name, alias.asname or alias.name.partition(".")[0], "")
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    self._from(module or "", alias, is_own=level > 0)
            case ast.Call(func=func):
                self._used.append(func)
            case ast.ClassDef(bases=bases):
                self._used += bases
            case _:
                pass

    def _import(self, module: str, name: str, original: str) -> None:
        self.modules.append(module)
        self._packages[name] = module.partition(".")[0]
        self._originals[name] = original

    def _from(self, module: str, alias: ast.alias, *, is_own: bool) -> None:
        name = alias.asname or alias.name
        if is_own:  # of the script's own package: never Ray's, whatever its name
            self._originals[name] = alias.name
            self.siblings += [module, f"{module}.{alias.name}".lstrip(".")]
            return
        self._import(module, name, alias.name)
        self.modules.append(f"{module}.{alias.name}")

    @property
    def knows_ray(self) -> bool:
        """Whether Ray is imported."""
        return "ray" in {module.partition(".")[0] for module in self.modules}

    @property
    def joins(self) -> bool:
        """Whether a group of processes is joined, by name or by a class that does it."""
        return any(self._joins(used) for used in self._used)

    def _joins(self, used: ast.expr) -> bool:
        name = used.attr if isinstance(used, ast.Attribute) else None
        root = used
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return name in _JOINS
        name = name or self._originals.get(root.id) or root.id
        if name in _JOINS:
            return True
        ends = _JOINS_ITSELF.get(self._packages.get(root.id, ""), ())
        return any(name == end or (name.endswith("Trainer") and end == "Trainer") for end in ends)
