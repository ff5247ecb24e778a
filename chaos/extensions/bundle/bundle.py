"""The reproductions of an audit, where another person or another machine can run them.

`build_bundle` makes a zip:

    README.txt        the command for each finding, and what is not in the zip
    versions.txt      the packages of the audit, as pip takes them
    card.html         the card, with summary.md and audit.json
    repro/            a scenario for each finding
    job/              the script, and the modules of the user's own that it imports

`keep_scenarios` writes the scenarios alone, with the way to the script from their new folder.
"""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from chaos.audit.card import Card
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

CARD_FILES = ("card.html", "summary.md", "audit.json")
_PYTHON = "python"


class _Repro(NamedTuple):
    """The reproduction of one finding: its file, its plan, and the comment above it."""

    file: Path
    plan: Plan
    comment: tuple[str, ...]


def keep_scenarios(audit: Path, folder: Path) -> list[Path]:
    """Write the scenarios of an audit's findings into a folder; return their files.

    Raises `UsageError` where the audit has no finding, or where another file has the name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {}
    for repro in _load_repros(audit):
        stem = Path(repro.plan.job.source).stem.replace(".", "_")
        texts[folder / f"{stem}_{repro.file.name}"] = _render(repro, repro.plan, folder)
    for file, text in texts.items():
        if file.exists() and file.read_text(encoding="utf-8") != text:
            hint = "Move it, or name another folder."
            raise UsageError("another file has this name", hint, location=str(file))
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    return [*texts]


def build_bundle(audit: Path, file: Path) -> list[str]:
    """Write the zip of an audit; return the names of the files in it.

    The script and its modules go in as they are. Raises `UsageError` where the audit has no
    finding.
    """
    repros = _load_repros(audit)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / "repro").mkdir()
        script, omissions = _copy_job(repros[0].plan, root)
        for repro in repros:
            moved_plan = _move_plan(repro.plan, script)
            text = mask_text(_render(repro, moved_plan, root / "repro"))
            (root / "repro" / repro.file.name).write_text(text, encoding="utf-8")
        for name in CARD_FILES:
            if (audit / name).is_file():
                shutil.copyfile(audit / name, root / name)
        _write_texts(audit, repros, omissions, root)
        names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.*"))
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.write(root / name, f"{file.stem}/{name}")
    return names


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


def _copy_job(plan: Plan, root: Path) -> tuple[Path | None, list[str]]:
    """Copy the script and its modules; return its new path, and what is not in the zip.

    A job that is a module has no path: its package lies in the zip's own folder, as `python -m`
    finds it from there.
    """
    cwd = Path(plan.cwd)
    if plan.job.script is None:
        module = Modules([cwd]).find_runnable(plan.job.source.partition(":")[0])
        if module is None:
            return None, [f"the module {plan.job.source}"]
        _copy_files(find_own_modules(module), base=cwd, target=root)
        return None, _list_omissions(plan)
    script = ModuleFile(Path(plan.job.script))
    files = find_own_modules(script)
    base = Path(os.path.commonpath([path.parent for path in files]))
    _copy_files(files, base=base, target=root / "job")
    return root / "job" / script.file.absolute().relative_to(base), _list_omissions(plan)


def _copy_files(files: Iterable[Path], *, base: Path, target: Path) -> None:
    for file in files:
        if file.is_relative_to(base):
            copy = target / file.relative_to(base)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def _list_omissions(plan: Plan) -> list[str]:
    """Return what the job reads and the zip lacks, as far as its command names it."""
    words = build_command_line(plan.job.args)
    named_paths = [word.rpartition("=")[2] for word in words]
    return [
        *dict.fromkeys(
            path for path in (*named_paths, *plan.job.inputs) if path and Path(path).exists()
        )
    ]


def _move_plan(plan: Plan, script: Path | None) -> Plan:
    if script is None:
        return plan
    return plan.replace(job=plan.job.replace(script=str(script)))


def _write_texts(
    audit: Path, repros: Sequence[_Repro], omissions: Sequence[str], root: Path
) -> None:
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
        "versions.txt has the packages of the audit. The script and its modules, in job/, are as",
        "they were when the bundle was made. Data and packages are not in it.",
        *(f"Named by the command, and not in it: {path}" for path in omissions),
        "",
    ]
    (root / "README.txt").write_text("\n".join(lines), encoding="utf-8")
