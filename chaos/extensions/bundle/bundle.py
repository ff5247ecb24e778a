"""The reproductions of an audit, where another person or another machine can run them.

`build_bundle` makes a zip:

    README.txt        the command for each finding, and what is not in the zip
    versions.txt      the packages of the audit, as pip takes them
    card.html         the card, with summary.md and audit.json
    repro/            a scenario for each finding
    job/              the script, and the modules of the user's own that it imports

A job that is a module has no job/: its package lies beside README.txt, as `python -m` finds it
there. README.txt lists the files of the job's code, and names what is known not to be in the zip.

`keep_scenarios` writes the scenarios alone, with the way to the script from their new folder.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from chaos.audit.card import Card
from chaos.cli.documents import convert_write_errors
from chaos.errors import UsageError
from chaos.model.arguments import build_command_line
from chaos.model.masking import mask_text
from chaos.model.plan import Plan
from chaos.plan.make import make_plan
from chaos.run.modules import ModuleFile, Modules
from chaos.run.record_file import read_small_file
from chaos.run.script_launcher import find_own_modules
from chaos.scenario_file.load import SUFFIX, load_scenario
from chaos.scenario_file.text import render_scenario
from chaos.wording import plural

CARD_FILES = ("card.html", "summary.md", "audit.json")
_PYTHON = "python"
_CHAOS = Path(__file__).parents[2]


@contextmanager
def _convert_read_errors() -> Iterator[None]:
    """Turn an error of the system into a usage error: a file for the bundle cannot be read."""
    try:
        yield
    except OSError as error:
        location = str(error.filename or "")
        raise UsageError(f"cannot be read: {error.strerror}", location=location) from error


class _Repro(NamedTuple):
    """The reproduction of one finding: its file, its plan, and the comment above it."""

    file: Path
    plan: Plan
    comment: tuple[str, ...]


class _JobCode(NamedTuple):
    """The code of a job in a bundle, and what the job needs that is not there."""

    #: its new path; None for a job that is a module
    script: Path | None
    #: the files of the code, below the bundle's folder
    names: tuple[str, ...]
    omissions: tuple[str, ...]


class Bundle(NamedTuple):
    """The names of the files in a bundle, and what it says of the job's code."""

    names: tuple[str, ...]
    #: of `names`, the files of the job's code
    code_names: tuple[str, ...]
    omissions: tuple[str, ...]

    @property
    def code_sentence(self) -> str:
        """The extent of the job's code in the bundle, without a full stop."""
        if not self.code_names:
            return "no code of the job is in it"
        return f"the code of the job is in it as it is ({plural(len(self.code_names), 'file')})"


def keep_scenarios(audit: Path, folder: Path) -> list[Path]:
    """Write the scenarios of an audit's findings into a folder; return their files.

    Raises `UsageError` where the audit has no finding, or where another file has the name.
    """
    texts = {}
    for repro in _load_repros(audit):
        stem = Path(repro.plan.job.source).stem.replace(".", "_")
        texts[folder / f"{stem}_{repro.file.name}"] = _render(repro, repro.plan, folder)
    with convert_write_errors(folder):
        for file, text in texts.items():
            if file.exists() and file.read_text(encoding="utf-8") != text:
                hint = "Move it, or name another folder."
                raise UsageError("another file has this name", hint, location=str(file))
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
    return [*texts]


def build_bundle(audit: Path, file: Path) -> Bundle:
    """Write the zip of an audit, and its folder; return what is in it.

    The code of the job goes in as it is. Raises `UsageError` where the audit has no finding.
    """
    repros = _load_repros(audit)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / "repro").mkdir()
        with _convert_read_errors():
            code = _copy_job(repros[0].plan, root)
            for name in CARD_FILES:
                if (audit / name).is_file():
                    shutil.copyfile(audit / name, root / name)
        for repro in repros:
            moved_plan = _move_plan(repro.plan, code.script)
            text = mask_text(_render(repro, moved_plan, root / "repro"))
            (root / "repro" / repro.file.name).write_text(text, encoding="utf-8")
        _write_texts(audit, repros, code, root)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        names = tuple(path.relative_to(root).as_posix() for path in files)
        with convert_write_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in names:
                    archive.write(root / name, f"{file.stem}/{name}")
    return Bundle(names, code.names, code.omissions)


@_convert_read_errors()
def _load_repros(audit: Path) -> list[_Repro]:
    files = sorted((audit / "repro").glob(f"*{SUFFIX}"))
    if not files:
        hint = "A bundle has the reproductions of an audit's findings."
        raise UsageError("this audit has no reproduction", hint, location=str(audit))
    return [
        _Repro(
            file,
            make_plan(load_scenario(file), file=file.absolute(), seed=0, cwd=Path.cwd()),
            _load_comment(file),
        )
        for file in files
    ]


def _load_comment(file: Path) -> tuple[str, ...]:
    """Return the sentence above a scenario."""
    lines = file.read_text(encoding="utf-8").splitlines()
    comment_lines = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
    return (" ".join(comment_lines),) if comment_lines else ()


def _render(repro: _Repro, plan: Plan, folder: Path) -> str:
    expect = plan.expect.model_dump(mode="json", exclude_defaults=True)
    return render_scenario(
        plan, folder=folder.absolute(), comment=repro.comment, expect=expect, limits=plan.limits
    )


def _copy_job(plan: Plan, root: Path) -> _JobCode:
    """Copy the script and its modules into a folder of the bundle's.

    A job that is a module has no path: its package lies in the bundle's own folder, as `python -m`
    finds it from there.
    """
    cwd, script = Path(plan.cwd), None
    if plan.job.script is not None:
        script = Path(plan.job.script).absolute()
        files = find_own_modules(ModuleFile(script))
        folders = [script.parent, script.parent.parent, cwd]
    else:
        module = Modules([cwd]).find_runnable(plan.job.source.partition(":")[0])
        if module is None:
            return _JobCode(None, (), (f"the module {plan.job.source}", *_list_inputs(plan)))
        files, folders = find_own_modules(module), [cwd]
    own_files = [file for file in files if file == script or _is_within_any(file, folders)]
    base = cwd if script is None else Path(os.path.commonpath([f.parent for f in own_files]))
    target = root if script is None else root / "job"
    names = _copy_files(own_files, base=base, target=target)
    # By name alone: where they lie on this machine is no business of the bundle's reader.
    omissions = [
        f"the module {_find_package(file).stem}" for file in files if file not in own_files
    ]
    if script is not None and plan.job.launcher_facts.words.script_kind:
        omissions.append(f"what {script.name} starts")
    return _JobCode(
        None if script is None else target / script.relative_to(base),
        tuple((target.relative_to(root) / name).as_posix() for name in names),
        tuple(dict.fromkeys((*omissions, *_list_inputs(plan)))),
    )


def _is_within_any(file: Path, folders: Iterable[Path]) -> bool:
    """Return whether a file is in one of some folders, and not in chaos itself."""
    is_own = any(file.is_relative_to(folder) for folder in folders if folder != Path(folder.anchor))
    return is_own and not file.is_relative_to(_CHAOS)


def _find_package(file: Path) -> Path:
    """Return the folder of the outermost package that a module is in; without one, its file."""
    path = file
    while (path.parent / "__init__.py").is_file():
        path = path.parent
    return path


def _copy_files(files: Iterable[Path], *, base: Path, target: Path) -> list[Path]:
    """Copy files into a folder; return their paths in it."""
    names = [file.relative_to(base) for file in files]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(base / name, target / name)
    return names


def _list_inputs(plan: Plan) -> list[str]:
    """Return the files and folders that the job's command names, and its further inputs."""
    words = build_command_line(plan.job.args)
    named_paths = [word.rpartition("=")[2] for word in words]
    paths = (*named_paths, *plan.job.inputs)
    # `os.path.exists` takes any word for a path: `Path.exists` raises where one is too long.
    return [path for path in paths if path and os.path.exists(path)]  # noqa: PTH110


def _move_plan(plan: Plan, script: Path | None) -> Plan:
    if script is None:
        return plan
    return plan.replace(job=plan.job.replace(script=str(script)))


def _write_texts(audit: Path, repros: Sequence[_Repro], code: _JobCode, root: Path) -> None:
    card = Card.from_json(read_small_file(audit / "audit.json"))
    pins = [
        f"{package}=={version.partition('+')[0]}"
        for package, version in card.versions.items()
        if package != _PYTHON
    ]
    (root / "versions.txt").write_text("\n".join((*pins, "")), encoding="utf-8")
    backend = f" --backend {card.backend}" if card.backend != "ray" else ""
    commands = [f"  chaos run repro/{repro.file.name}{backend}" for repro in repros]
    python = card.versions.get(_PYTHON, "")
    lines = [
        card.sentence,
        "",
        f"Made by chaos {card.version} with Python {python}. Run it in this folder:",
        "",
        *commands,
        "",
        "versions.txt has the packages of the audit. Data and packages are not in the bundle.",
        *_describe_code(code),
        "",
    ]
    (root / "README.txt").write_text("\n".join(lines), encoding="utf-8")


def _describe_code(code: _JobCode) -> Iterator[str]:
    """Yield the lines of README.txt about the code of the job."""
    if code.names:
        yield "The code of the job is as it was when the bundle was made:"
        yield from ("", *(f"  {name}" for name in code.names))
    else:
        yield "No code of the job is in it."
    if code.omissions:
        yield from ("", "The job needs or names these, and they are not in the bundle:", "")
        yield from (f"  {omission}" for omission in code.omissions)
