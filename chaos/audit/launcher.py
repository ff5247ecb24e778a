"""The launcher that a script is written for, as its own text and that of its modules shows it.

A script that reaches no text in which Ray is imported cannot call Ray Train's `fit()`. One in which
nothing asks for a launcher either is taken for what it is: a command.
"""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from chaos.model.launcher import WORKER_ENV, Launcher
from chaos.run.modules import ModuleFile, Modules, absolute, parsed
from chaos.run.shown import shown

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
    "composer": ("Trainer",),
    "ignite": ("Parallel", "initialize"),
}
# Functions that start the workers themselves, likewise.
_STARTS = {
    "torch": ("spawn", "start_processes"),  # torch.multiprocessing
    "accelerate": ("notebook_launcher", "debug_launcher"),
}
# Packages of a `Process`, which is a worker where a group is joined beside it.
_PROCESS = frozenset({"multiprocessing", "torch", ""})
_MAKES_FIT = ("Trainer", "Tuner")  # the ends of the names of Ray's classes that have a `fit()`

# A module is read as a tree only where its text has one of these words: most have none, and a
# script's own code may be hundreds of modules.
_OF_INTEREST = re.compile(
    "|".join(
        (
            r"\bray\b",
            r"local.rank",
            *WORKER_ENV,
            *_JOINS,
            *{end for ends in (*_JOINS_ITSELF.values(), *_STARTS.values()) for end in ends},
        )
    )
)
_IMPORT = re.compile(
    r"^([ \t]*)(?:from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|.*)|import[ \t]+(.*))",
    re.MULTILINE,
)
_NOT_NAMES = re.compile(r"#.*|[()\\\n]")
# The most modules that are read: of the user's own code, and of all that is installed.
OWN_MAX, INSTALLED_MAX = 1_000, 200

# Where a statement is: always run as its module is imported, run later, or run under a condition.
_Place: TypeAlias = Literal["top", "function", "branch"]


@dataclass(frozen=True)
class LauncherEvidence:
    """The facts that show the launcher of a script, each by its place in the code: `train.py:3`."""

    #: Ray is imported on any condition, or a trainer of its is made
    ray: str | None = None
    #: a group of processes is joined
    group: str | None = None
    #: a variable or an option is read that torchrun gives its workers
    given: str | None = None
    #: the workers are started by the script itself
    starts: str | None = None

    @property
    def launcher(self) -> Launcher:
        if self.ray is not None:
            return "ray"
        return "torchrun" if (self.group or self.given) and self.starts is None else "python"

    def __str__(self) -> str:
        if self.ray is not None:
            return f"{self.ray} imports Ray"
        if self.starts is not None:
            return f"{self.starts} starts its workers itself, and no need for Ray was seen"
        if self.group is not None:
            return f"{self.group} joins a group of processes, and no need for Ray was seen"
        if self.given is not None:
            return f"{self.given} asks for its rank, and no need for Ray was seen"
        return "no need for Ray or torchrun was seen"


def launcher_evidence(script: ModuleFile) -> LauncherEvidence:
    """Return what shows the launcher of a script, or of a module that is run as one.

    Its own text decides, where it needs Ray or joins a group. Otherwise its own modules do, with
    Ray before all else: a Ray Train script may keep its trainer in a module of its own, beside a
    train loop that joins a group. Packages that are installed come last: some are built on Ray.
    Raises `OSError` if the script cannot be read.
    """
    code = _Code(script)
    found: dict[str, str] = {}
    is_decided = False  # by the script's own text: Ray in a module beside it is for others
    for number, text in enumerate(islice(code.own(), OWN_MAX)):
        if (ray := text.needs_ray(in_functions=number == 0)) is not None and not is_decided:
            return LauncherEvidence(ray=_at(text.file, ray))
        for fact, line in text.facts.items():
            found.setdefault(fact, _at(text.file, line))
        is_decided |= number == 0 and not found.keys().isdisjoint(("group", "starts"))
        # Who states a rank has it from somebody: what starts the workers may be in another module.
        if is_decided and not text.states_rank:
            break
    if found.keys().isdisjoint(("group", "starts")):
        found |= {"ray": built_on} if (built_on := code.built_on_ray()) else {}
    return LauncherEvidence(**found)


class _Code:
    """The texts that a script reaches by its imports, nearest first."""

    def __init__(self, script: ModuleFile) -> None:
        # Python's own order: the folder of the script; of a module, where it is run. The folders
        # after these are what many scripts add to their path themselves.
        cwd, around = Path.cwd(), script.file.absolute().parent
        self._modules = Modules([cwd if script.name else around, around.parent, cwd, cwd / "src"])
        ray = self._modules.find("ray")
        self._has_own_ray = ray is not None and ray.is_own
        self._installed: dict[str, ModuleFile] = {}
        self._first = script
        self._above = self._modules.on_the_way(script.package) if script.package else {}

    def own(self) -> Iterator["_Text"]:
        """Yield the texts of the user's own code; raises `OSError` for the script alone."""
        seen, waiting = {*self._above}, deque([self._first, *self._above.values()])
        while waiting:
            file = waiting.popleft()
            source = file.file.read_bytes() if file is self._first else _read(file.file)
            text = source.decode(errors="replace")
            yield _Text(file.file, text, knows_ray=not self._has_own_ray)
            for name, found in self._named(_imports(text, file.package)):
                if name not in seen and found.is_own:
                    seen.add(name)
                    waiting.append(found)
                elif not found.is_own:
                    self._installed[name] = found

    def built_on_ray(self) -> str | None:
        """Return where an installed package imports Ray as it is imported itself; None if none."""
        # Of these the lines without indentation are read, and no further package: Ray is then
        # imported whatever the script does, and an integration that few use is left out.
        waiting = deque((name, file) for name, file in self._installed.items())
        seen = {*self._installed}
        while waiting and len(seen) < INSTALLED_MAX:
            name, (file, _, package) = waiting.popleft()
            top = name.partition(".")[0]
            names = [*_imports(_read(file).decode(errors="replace"), package, at_top=True)]
            if top != "ray" and any(each.partition(".")[0] == "ray" for each in names):
                return shown(file)
            for each, found in self._named(n for n in names if n.partition(".")[0] == top):
                if each not in seen:
                    seen.add(each)
                    waiting.append((each, found))
        return None

    def _named(self, names: Iterable[str]) -> Iterator[tuple[str, ModuleFile]]:
        for name in names:
            yield from self._modules.on_the_way(name).items()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _at(file: Path, line: int) -> str:
    return f"{shown(file)}:{line}"


def _imports(source: str, package: str, *, at_top: bool = False) -> Iterator[str]:
    """Yield the modules that a text may import, once for each; a docstring's example as well."""
    names = set[str]()
    for indented, base, members, modules in _IMPORT.findall(source):
        if indented and at_top:
            continue
        words = [word.split() for word in _NOT_NAMES.sub(" ", members or modules).split(",")]
        whole = absolute(base, package) if base else None
        if whole is not None:
            names |= {whole, *(f"{whole}.{first}" for first, *_ in filter(None, words))}
        elif not base:
            names |= {first for first, *_ in filter(None, words)}
    yield from sorted(names)


class _Text:
    """The imports and the calls of one module."""

    def __init__(self, file: Path, source: str, *, knows_ray: bool) -> None:
        self.file = file
        self.facts: dict[str, int] = {}  # the first line of each, by its field in the evidence
        self.states_rank = False  # where a group is joined
        self._ray: list[tuple[_Place, int]] = []
        self._packages: dict[str, str] = {}  # the package behind each name
        self._originals: dict[str, str] = {}  # what `import x as y` and `from m import x as y` mean
        self._used: list[ast.expr] = []  # what is called, or is the base of a class
        self._processes: list[int] = []  # where any process is started
        self._knows_ray = knows_ray
        if _OF_INTEREST.search(source):
            self._take_all(parsed(source))

    def needs_ray(self, *, in_functions: bool) -> int | None:
        """Return the first line by which Ray is needed."""
        places = ("top", "function") if in_functions else ("top",)
        return min((line for place, line in self._ray if place in places), default=None)

    def _take_all(self, tree: ast.Module) -> None:
        waiting: list[tuple[ast.AST, _Place]] = [(tree, "top")]
        while waiting:
            node, place = waiting.pop()
            self._take(node, place)
            inner = _place_in(node, place)
            waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
        for used in self._used:
            self._judge(used)
        if "group" in self.facts:
            for line in self._processes:
                self._note("starts", line)

    def _take(self, node: ast.AST, place: _Place) -> None:
        match node:
            case ast.Import(names=names, lineno=line):
                for alias in names:
                    known = alias.asname or alias.name.partition(".")[0]
                    self._import(alias.name, known, "", (place, line))
            case ast.ImportFrom(module=module, names=names, level=level, lineno=line):
                for alias in names:
                    known = alias.asname or alias.name
                    package = "." if level else module or ""  # its own: never Ray's, by any name
                    self._import(package, known, alias.name, (place, line))
            case ast.Call(func=func, args=args, keywords=keywords):
                self._used.append(func)
                self._look_for_given(args, node.lineno)
                joins = (func.attr if isinstance(func, ast.Attribute) else "") in _JOINS
                joins |= isinstance(func, ast.Name) and func.id in _JOINS
                self.states_rank |= joins and any(word.arg == "rank" for word in keywords)
            case ast.Subscript(slice=index, ctx=ast.Load()):
                self._look_for_given([index], node.lineno)
            case ast.ClassDef(bases=bases):
                self._used += bases
            case _:
                pass

    def _import(self, module: str, name: str, original: str, at: tuple[_Place, int]) -> None:
        package = module.partition(".")[0]
        self._packages[name] = package
        self._originals[name] = original
        if package == "ray" and self._knows_ray:
            self._ray.append(at)

    def _judge(self, used: ast.expr) -> None:
        root = used
        while isinstance(root, ast.Attribute):
            root = root.value
        package, original = "", ""
        if isinstance(root, ast.Name):
            package = self._packages.get(root.id, "")
            original = self._originals.get(root.id) or root.id
        name = used.attr if isinstance(used, ast.Attribute) else original
        if package == "ray" and self._knows_ray and name.endswith(_MAKES_FIT):
            self._ray.append(("top", used.lineno))
        ends = _JOINS_ITSELF.get(package, ())
        if name in _JOINS or name in ends or ("Trainer" in ends and name.endswith("Trainer")):
            self._note("group", used.lineno)
        if name in _STARTS.get(package, ()):
            self._note("starts", used.lineno)
        if name == "Process" and package in _PROCESS:
            self._processes.append(used.lineno)

    def _look_for_given(self, words: Sequence[ast.expr], line: int) -> None:
        """Note a variable of torchrun's, or the argument that torch.distributed.launch adds."""
        for word in words:
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                name = word.value.replace("-", "_")
                if name in WORKER_ENV or name == "__local_rank":
                    self._note("given", line)

    def _note(self, fact: str, line: int) -> None:
        self.facts[fact] = min(self.facts.get(fact, line), line)


def _place_in(node: ast.AST, place: _Place) -> _Place:
    """Return the place of what a node holds."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return place
        case ast.If() | ast.Try() | ast.TryStar() | ast.With():
            return "branch"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if place == "top":
            return "function"
        case _:
            return place
