"""The launcher that a script is written for, as its own text and that of its modules shows it.

A script that reaches no text in which Ray is imported cannot call Ray Train's `fit()`. One in which
nothing asks for a launcher either is taken for what it is: a command.
"""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from chaos.model.launcher import Launcher
from chaos.model.launcher_facts import WORKER_ENV
from chaos.run.display_path import format_path
from chaos.run.modules import ModuleFile, Modules, parse_module, resolve_module

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
# Of these, classes that train alone unless a launcher started ranks. A script that has one is for
# ranks if it also says something of them: a right script for one process was blamed since each of
# two ranks had marked a save as done.
_TRAINERS = ("Trainer", "LightningCLI")
_RANK_WORDS = re.compile(
    r"\b(?:is_world_process_zero|is_local_process_zero|is_main_process|is_local_main_process|"
    r"is_global_zero|rank_zero\w*|global_rank|local_rank|get_rank|world_size|get_world_size|"
    r"num_processes|num_nodes|nproc\w*|ddp|fsdp\w*|torchrun|DistributedSampler|RANK|"
    r"accelerate launch)\b|\bstrategy\s*=|\bgpus\s*=\s*[2-9-]|"
    r"\bdevices\s*=\s*(?!1\b|\[0\]|[\"'](?:1|auto)[\"'])\S"
)
_JOINS_ALWAYS = frozenset({"deepspeed"})  # of these, what needs the variables of a launcher
# Functions that start the workers themselves, likewise.
_STARTS = {
    "torch": ("spawn", "start_processes"),  # torch.multiprocessing
    "accelerate": ("notebook_launcher", "debug_launcher"),
}
# Packages of a `Process`, which is a worker where a group is joined beside it.
_PROCESS = frozenset({"multiprocessing", "torch", ""})
_GROUP_FACTS = frozenset({"group", "library_group"})
_DECISIVE_FACTS = _GROUP_FACTS | {"spawn_location", "lone_trainer"}
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

#: a number of ranks, or the fewest and the most; None: none was given
RankCount: TypeAlias = int | tuple[int, int] | None
# Where a statement is: always run as its module is imported, run later, or run under a condition.
_Nesting: TypeAlias = Literal["top", "function", "branch"]


@dataclass(frozen=True)
class LauncherEvidence:
    """The facts that show the launcher of a script, each by its place in the code: `train.py:3`."""

    #: Ray is imported on any condition, or a trainer of its is made
    ray: str | None = None
    #: a group of processes is joined
    group: str | None = None
    #: a library is called that joins one where one is started, and trains alone where none is
    library_group: str | None = None
    #: a library's trainer is called, which trains alone unless ranks were started, and the script
    #: says nothing of ranks
    lone_trainer: str | None = None
    #: a variable or an option is read that torchrun gives its workers
    torchrun_variable_location: str | None = None
    #: the workers are started by the script itself
    spawn_location: str | None = None

    @property
    def launcher(self) -> Launcher:
        if self.ray is not None:
            return "ray"
        return (
            "torchrun"
            if (self.group or self.library_group or self.torchrun_variable_location)
            and self.spawn_location is None
            else "python"
        )

    def add_workers(self, workers: RankCount) -> "LauncherEvidence":
        """Return the evidence together with the number of ranks that was asked for, if any."""
        if self.lone_trainer is None or workers in (None, 1):
            return self
        return replace(self, lone_trainer=None, library_group=self.lone_trainer)

    @property
    def is_for_any_rank_count(self) -> bool:
        """Whether torchrun is guessed by a library alone, under which a script may train alone."""
        other_evidence = (self.group, self.torchrun_variable_location, self.spawn_location)
        return self.ray is None and self.library_group is not None and not any(other_evidence)

    def __str__(self) -> str:
        if self.ray is not None:
            return f"{self.ray} imports Ray"
        if self.spawn_location is not None:
            return f"{self.spawn_location} starts its workers itself, and no need for Ray was seen"
        if (group := self.group or self.library_group) is not None:
            return f"{group} joins a group of processes, and no need for Ray was seen"
        if self.torchrun_variable_location is not None:
            return (
                f"{self.torchrun_variable_location} asks for its rank, and no need for Ray was seen"
            )
        if self.lone_trainer is not None:
            return (
                f"{self.lone_trainer} trains alone unless ranks are started, and the script says "
                "nothing of ranks; --workers 2 starts two"
            )
        return "no need for Ray or torchrun was seen"


def find_launcher_evidence(script: ModuleFile) -> LauncherEvidence:
    """Return what shows the launcher of a script, or of a module that is run as one.

    Its own text decides, where it needs Ray or joins a group. Otherwise its own modules do, with
    Ray before all else: a Ray Train script may keep its trainer in a module of its own, beside a
    train loop that joins a group. Packages that are installed come last: some are built on Ray.
    Raises `OSError` if the script cannot be read.
    """
    code = _ScriptCode(script)
    location_by_fact: dict[str, str] = {}
    says_ranks = False
    is_decided = False  # by the script's own text: Ray in a module beside it is for others
    for number, text in enumerate(islice(code.load_own_modules(), OWN_MAX)):
        if (ray := text.find_ray_line(in_functions=number == 0)) is not None and not is_decided:
            return LauncherEvidence(ray=_describe_location(text.file, ray))
        for fact, line in text.facts.items():
            location_by_fact.setdefault(fact, _describe_location(text.file, line))
        is_decided |= number == 0 and not location_by_fact.keys().isdisjoint(_DECISIVE_FACTS)
        says_ranks |= text.says_ranks
        # Who states a rank has it from somebody: what starts the workers may be in another module.
        # So may be what says that there are ranks.
        is_open = "lone_trainer" in location_by_fact and not says_ranks
        if is_decided and not text.states_rank and not is_open:
            break
    if says_ranks and "lone_trainer" in location_by_fact:
        location_by_fact.setdefault("library_group", location_by_fact.pop("lone_trainer"))
    if location_by_fact.keys().isdisjoint(_DECISIVE_FACTS):
        location_by_fact |= {"ray": built_on} if (built_on := code.find_ray_importer()) else {}
    return LauncherEvidence(**location_by_fact)


def find_own_modules(script: ModuleFile) -> list[Path]:
    """Return the files of a script, the script first, and of the user's own modules it imports.

    Raises `OSError` where the script cannot be read.
    """
    texts = _ScriptCode(script).load_own_modules()
    return [*dict.fromkeys(text.file.absolute() for text in texts)]


class _ScriptCode:
    """The texts that a script reaches by its imports, nearest first."""

    def __init__(self, script: ModuleFile) -> None:
        # Python's own order: the folder of the script; of a module, where it is run. The folders
        # after these are what many scripts add to their path themselves.
        cwd, script_folder = Path.cwd(), script.file.absolute().parent
        self._modules = Modules(
            [cwd if script.name else script_folder, script_folder.parent, cwd, cwd / "src"]
        )
        ray = self._modules.find("ray")
        self._has_own_ray = ray is not None and ray.is_user_code
        self._installed: dict[str, ModuleFile] = {}
        self._script = script
        self._parent_packages = (
            self._modules.find_import_chain(script.package) if script.package else {}
        )

    def load_own_modules(self) -> Iterator["_ModuleText"]:
        """Yield the texts of the user's own code; raises `OSError` for the script alone."""
        seen_names, waiting = (
            {*self._parent_packages},
            deque([self._script, *self._parent_packages.values()]),
        )
        while waiting:
            file = waiting.popleft()
            source = file.file.read_bytes() if file is self._script else _load_file(file.file)
            text = source.decode(errors="replace")
            yield _ModuleText(file.file, text, knows_ray=not self._has_own_ray)
            for name, module in self._find_modules(_find_imports(text, file.package)):
                if name not in seen_names and module.is_user_code:
                    seen_names.add(name)
                    waiting.append(module)
                elif not module.is_user_code:
                    self._installed[name] = module

    def find_ray_importer(self) -> str | None:
        """Return where an installed package imports Ray as it is imported itself; None if none."""
        # Of these the lines without indentation are read, and no further package: Ray is then
        # imported whatever the script does, and an integration that few use is left out.
        waiting = deque((name, file) for name, file in self._installed.items())
        seen_names = {*self._installed}
        while waiting and len(seen_names) < INSTALLED_MAX:
            name, (file, _, package) = waiting.popleft()
            root = name.partition(".")[0]
            names = [
                *_find_imports(_load_file(file).decode(errors="replace"), package, at_top=True)
            ]
            if root != "ray" and any(
                module_name.partition(".")[0] == "ray" for module_name in names
            ):
                return format_path(file)
            for module_name, module in self._find_modules(
                n for n in names if n.partition(".")[0] == root
            ):
                if module_name not in seen_names:
                    seen_names.add(module_name)
                    waiting.append((module_name, module))
        return None

    def _find_modules(self, names: Iterable[str]) -> Iterator[tuple[str, ModuleFile]]:
        for name in names:
            yield from self._modules.find_import_chain(name).items()


def _load_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _describe_location(file: Path, line: int) -> str:
    return f"{format_path(file)}:{line}"


def _find_imports(source: str, package: str, *, at_top: bool = False) -> Iterator[str]:
    """Yield the modules that a text may import, once for each; a docstring's example as well."""
    names = set[str]()
    for indentation, base, members, modules in _IMPORT.findall(source):
        if indentation and at_top:
            continue
        words = [word.split() for word in _NOT_NAMES.sub(" ", members or modules).split(",")]
        full_name = resolve_module(base, package) if base else None
        if full_name is not None:
            names |= {full_name, *(f"{full_name}.{first}" for first, *_ in filter(None, words))}
        elif not base:
            names |= {first for first, *_ in filter(None, words)}
    yield from sorted(names)


class _ModuleText:
    """The imports and the calls of one module."""

    def __init__(self, file: Path, source: str, *, knows_ray: bool) -> None:
        self.file = file
        self.facts: dict[str, int] = {}  # the first line of each, by its field in the evidence
        self.states_rank = False  # where a group is joined
        self.says_ranks = _RANK_WORDS.search(source) is not None
        self._ray_imports: list[tuple[_Nesting, int]] = []
        self._packages: dict[str, str] = {}  # the package behind each name
        self._originals: dict[str, str] = {}  # what `import x as y` and `from m import x as y` mean
        self._used_expressions: list[ast.expr] = []  # what is called, or is the base of a class
        self._process_lines: list[int] = []  # where any process is started
        self._knows_ray = knows_ray
        if _OF_INTEREST.search(source):
            self._scan_tree(parse_module(source))

    def find_ray_line(self, *, in_functions: bool) -> int | None:
        """Return the first line by which Ray is needed."""
        nestings = ("top", "function") if in_functions else ("top",)
        return min(
            (line for nesting, line in self._ray_imports if nesting in nestings), default=None
        )

    def _scan_tree(self, tree: ast.Module) -> None:
        waiting: list[tuple[ast.AST, _Nesting]] = [(tree, "top")]
        while waiting:
            node, nesting = waiting.pop()
            self._scan_node(node, nesting)
            inner_nesting = _find_nesting(node, nesting)
            waiting += [(child, inner_nesting) for child in ast.iter_child_nodes(node)]
        for expression in self._used_expressions:
            self._classify_use(expression)
        if not _GROUP_FACTS.isdisjoint(self.facts):
            for line in self._process_lines:
                self._record_fact("spawn_location", line)

    def _scan_node(self, node: ast.AST, nesting: _Nesting) -> None:
        match node:
            case ast.Import(names=names, lineno=line):
                for alias in names:
                    bound_name = alias.asname or alias.name.partition(".")[0]
                    self._record_import(alias.name, bound_name, "", (nesting, line))
            case ast.ImportFrom(module=module, names=names, level=level, lineno=line):
                for alias in names:
                    bound_name = alias.asname or alias.name
                    package = "." if level else module or ""  # its own: never Ray's, by any name
                    self._record_import(package, bound_name, alias.name, (nesting, line))
            case ast.Call(func=func, args=args, keywords=keywords):
                self._used_expressions.append(func)
                self._find_rank_reads(args, node.lineno)
                is_join = (func.attr if isinstance(func, ast.Attribute) else "") in _JOINS
                is_join |= isinstance(func, ast.Name) and func.id in _JOINS
                self.states_rank |= is_join and any(word.arg == "rank" for word in keywords)
            case ast.Subscript(slice=index, ctx=ast.Load()):
                self._find_rank_reads([index], node.lineno)
            case ast.ClassDef(bases=bases):
                self._used_expressions += bases
            case _:
                pass

    def _record_import(
        self, module: str, name: str, original: str, location: tuple[_Nesting, int]
    ) -> None:
        package = module.partition(".")[0]
        self._packages[name] = package
        self._originals[name] = original
        if package == "ray" and self._knows_ray:
            self._ray_imports.append(location)

    def _classify_use(self, expression: ast.expr) -> None:
        root = expression
        while isinstance(root, ast.Attribute):
            root = root.value
        package, original = "", ""
        if isinstance(root, ast.Name):
            package = self._packages.get(root.id, "")
            original = self._originals.get(root.id) or root.id
        name = expression.attr if isinstance(expression, ast.Attribute) else original
        if package == "ray" and self._knows_ray and name.endswith(_MAKES_FIT):
            self._ray_imports.append(("top", expression.lineno))
        if (fact := _find_group_fact(package, name)) is not None:
            self._record_fact(fact, expression.lineno)
        if name in _STARTS.get(package, ()):
            self._record_fact("spawn_location", expression.lineno)
        if name == "Process" and package in _PROCESS:
            self._process_lines.append(expression.lineno)

    def _find_rank_reads(self, words: Sequence[ast.expr], line: int) -> None:
        """Note a variable of torchrun's, or the argument that torch.distributed.launch adds."""
        for word in words:
            if isinstance(word, ast.Constant) and isinstance(word.value, str):
                name = word.value.replace("-", "_")
                if name in WORKER_ENV or name == "__local_rank":
                    self._record_fact("torchrun_variable_location", line)

    def _record_fact(self, fact: str, line: int) -> None:
        self.facts[fact] = min(self.facts.get(fact, line), line)


def _find_nesting(node: ast.AST, nesting: _Nesting) -> _Nesting:
    """Return the place of what a node holds."""
    match node:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return nesting
        case ast.If() | ast.Try() | ast.TryStar() | ast.With():
            return "branch"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if nesting == "top":
            return "function"
        case _:
            return nesting


def _find_group_fact(package: str, name: str) -> str | None:
    """Return what a call of a package's function or class shows; None for nothing."""
    joining_names = _JOINS_ITSELF.get(package, ())
    if name in _JOINS or (package in _JOINS_ALWAYS and name in joining_names):
        return "group"
    if name.endswith(_TRAINERS) and any(name.endswith(end) for end in joining_names):
        return "lone_trainer"
    return "library_group" if name in joining_names else None
