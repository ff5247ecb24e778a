"""One run's folder: `reports/<scenario>/<seed>-<start>/`.

scenario.yaml  the file as it was          plan.json    every choice made
drawn.chaos.yaml  the same choices as a scenario, where the seed decided more than ranks
env.json       versions and machine        history.jsonl  everything seen
verdict.json   the judgement               report.html  junit.xml
summary.json   the run in figures
journals/      one per process             logs/        output and stacks
storage/       the job's checkpoints
saves/         the rank and place of each file that the job saved
trials/        the other trials of an experiment, a folder like this for each
storage-faults/  the faults that storage was armed with, and their effects
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chaos.errors import HistoryError, UsageError
from chaos.model.event import EpochEnded, ReportBegun, StepDone
from chaos.model.history import HISTORY, Baseline, History, repeat_name
from chaos.model.masked import holds_secrets
from chaos.model.plan import Op, Plan
from chaos.model.verdict import Verdict
from chaos.plugins import with_absent
from chaos.run.journal import load_history, write_history
from chaos.run.record_file import digest_of, full_disk_told, read_record, write_text
from chaos.run.shown import shown

VERDICT = "verdict.json"
LENGTHS = "lengths.json"
RANKS = "ranks"  # in it: the number of ranks of the baseline
FIRST_SAVE = "first-save.json"  # of the baseline
INDEX = "index-"  # begins the name of a rank's index of the baseline
DRAWN = "drawn.chaos.yaml"
MARK = "CHAOSDIR.TAG"  # in a folder of reports
_MARKED = """\
chaos keeps its runs and reports in this folder. The scenarios in it are records of runs: pytest,
and `chaos run` of a folder around this one, leave them out.
"""
# A plan to be run again has all values, secrets too.
SECRET = ("plan.json", "scenario.yaml", DRAWN)


@dataclass(frozen=True)
class RunDirectory:
    """The paths of one run, and the reading and writing of its small files."""

    path: Path

    @property
    def journals(self) -> Path:
        return self.path / "journals"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def storage(self) -> Path:
        return self.path / "storage"

    @property
    def saves(self) -> Path:
        return self.path / "saves"

    @property
    def storage_faults(self) -> Path:
        return self.path / "storage-faults"

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    def remove_storage(self) -> None:
        """Remove the checkpoints, if they are in a folder that chaos has made."""
        for beside in self.trials.glob("*/storage"):
            shutil.rmtree(beside, ignore_errors=True)
        # It may be a link to a folder that all nodes share: that goes, and not the link alone.
        shutil.rmtree(self.storage.resolve(), ignore_errors=True)
        if self.storage.is_symlink():
            self.storage.unlink()

    def set_aside(self) -> None:
        """Move journals and logs to `tried-before`; remove what else the run had made."""
        before = self.path / "tried-before"
        before.mkdir()
        self.remove_storage()
        for folder in (self.storage_faults, self.trials):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.journals, self.logs):
            folder.rename(before / folder.name)
            folder.mkdir()
        for file in self.saves.iterdir():
            # Lengths, index and first save are of the baseline, and hold for the second try, too.
            # All else would be taken for saves of the try that begins.
            if file.name not in (LENGTHS, FIRST_SAVE) and not file.name.startswith(INDEX):
                file.unlink()

    def save_history(self, history: History, *, name: str = HISTORY) -> None:
        write_history(self.path / name, history)

    def load_history(self, name: str = HISTORY) -> History:
        """Return the history of `save_history`; raises `HistoryError` if it cannot be read."""
        return load_history(self.path / name)

    def save_baseline(self, baseline: History) -> None:
        """Write `baseline.jsonl`, `baseline-2.jsonl` and so on for its repeats.

        Their tokens are written into the plan, so that a file of another run is recognized.
        """
        runs = baseline.runs if isinstance(baseline, Baseline) else (baseline,)
        for number, run in enumerate(runs, start=1):
            self.save_history(run, name=repeat_name(number))
        named = tuple(next(iter(run.tokens), "") for run in runs)
        if any(named):  # those of an older chaos have none
            self.save_plan(self.load_plan().model_copy(update={"baselines": named}))

    def load_baseline(self) -> Baseline | None:
        """Return the saved baseline, None if there is none; may raise `HistoryError`.

        All runs of an audit share the one in its folder.
        """
        of = self
        if self.path.parent.name == "runs" and not os.path.lexists(self.path / repeat_name(1)):
            of = RunDirectory(self.path.parent.parent)
        runs: list[History] = []
        while os.path.lexists(of.path / (name := repeat_name(len(runs) + 1))):
            runs.append(of.load_history(name))
        return Baseline(runs) if runs else None

    def save_lengths(self, baseline: History | None) -> None:
        """Write the number of steps of rank 0 in each epoch that the baseline reports.

        A rank that ends between a save and the report after it cannot determine it. Epochs that
        end with a save of the job's own count as well; these are as long with as many ranks only.
        """
        if baseline is None:
            return
        ended = {begun.epoch for _, begun in baseline.of(ReportBegun)}
        ended |= {event.epoch for _, event in baseline.of(EpochEnded)}
        lengths = {str(epoch): 0 for epoch in sorted(ended)}
        has_own_ends = any(baseline.of(EpochEnded))
        for _, done in baseline.of(StepDone):
            if done.rank == 0 and done.epoch in ended:
                lengths[str(done.epoch)] = done.step
            elif has_own_ends and done.epoch in ended:
                lengths[f"{done.epoch}@{done.rank}"] = done.step
        if has_own_ends:
            lengths[RANKS] = 1 + max((done.rank for _, done in baseline.of(StepDone)), default=0)
        self.saves.mkdir(exist_ok=True)
        self.write(f"saves/{LENGTHS}", json.dumps(lengths))

    def save_verdict(self, verdict: Verdict) -> Verdict:
        """Write and return the verdict, with the digest of its history."""
        judged = verdict.model_copy(update={"history": digest_of(self.path / HISTORY)})
        self.write(VERDICT, judged.model_dump_json(indent=2))
        return judged

    def load_verdict(self) -> Verdict | None:
        """Return the verdict, None if there is none, or if another version wrote it."""
        try:
            return Verdict.model_validate_json(read_record(self.path / VERDICT))
        except (OSError, ValidationError):
            return None

    def load_plan(self) -> Plan:
        path = self.path / "plan.json"
        try:
            content = read_record(path)
            plan = Plan.model_validate_json(_marked(content))
            return plan.model_copy(update={"digest": _digest_of_plan(content)})
        except OSError as error:
            raise HistoryError(
                f"cannot read the plan: {error.strerror}",
                "Give the directory of a run, such as reports/<scenario>/<seed>-<start>.",
                place=str(path),
            ) from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            raise HistoryError(
                f"not a plan of this version: {where}: {first['msg']}",
                "Make a new one with `chaos run` on the scenario beside it.",
                place=str(path),
            ) from error

    def load_env(self) -> dict[str, Any]:
        """Return the recorded versions and machine; empty if the file is missing."""
        path = self.path / "env.json"
        try:
            env = json.loads(read_record(path))
        except (OSError, ValueError, RecursionError):
            return {}
        return env if isinstance(env, dict) else {}

    def write(self, name: str, text: str) -> Path:
        return write_text(self.path / name, text)

    def save_plan(self, plan: Plan) -> None:
        self.write("plan.json", plan.model_dump_json(indent=2))
        self.keep_secrets(plan)

    def keep_secrets(self, plan: Plan) -> None:
        """Make the files with secrets readable by this user alone, if the plan has secrets."""
        if holds_secrets(plan.model_dump(mode="json", exclude={"token", "baselines"})):
            for name in SECRET:
                with contextlib.suppress(FileNotFoundError):
                    # After each writing, as a file that is written whole is a new one.
                    (self.path / name).chmod(0o600)


def _marked(text: bytes) -> bytes:
    """Return a plan's text with absent faults marked; the same text if it is no JSON."""
    try:
        return with_absent(text, Op.model_fields)
    except (ValueError, RecursionError):
        return text


def _digest_of_plan(content: bytes) -> str:
    """Return a digest of plan.json, but for the baselines, which are added later."""
    fields = json.loads(content)
    fields.pop("baselines", None)
    return hashlib.blake2b(json.dumps(fields).encode(), digest_size=16).hexdigest()


def in_reports(reports: Path, kind: str) -> Path:
    """Return a folder of the folder of reports, which is made if there is none, and marked.

    Below the mark, neither pytest nor `chaos run` of a folder around it takes a scenario for a new
    one. Git ignores what is in a folder that chaos has made.
    """
    # Not around the user's own files, as with `--reports .`.
    is_around = Path.cwd().is_relative_to(reports.resolve())
    with contextlib.suppress(OSError):  # of a folder that cannot be written, `create` tells
        if not is_around and not (reports / MARK).exists():
            is_new = not reports.exists() or not any(reports.iterdir())
            reports.mkdir(parents=True, exist_ok=True)
            write_text(reports / MARK, _MARKED)
            if is_new:
                write_text(reports / ".gitignore", "*\n")
    return reports / kind


def is_recorded(file: Path, *, below: Path) -> bool:
    """Return whether a file is in a folder of reports that lies below another folder."""
    around = (folder for folder in file.parents if folder != below and below in folder.parents)
    return any((folder / MARK).is_file() for folder in around)


def create(parent: Path, name: str, plan: Plan, env: dict[str, Any]) -> RunDirectory:
    """Make a run's folder, and save plan, environment and scenario in it.

    The saved plan has a token of its own, which the run's journals repeat. `name` gets a
    suffix if it is taken. Raises `UsageError` if the folder cannot be written.
    """
    try:
        directory = RunDirectory(fresh(parent, name))
        directory.journals.mkdir()
        directory.logs.mkdir()
        directory.saves.mkdir()
        # A folder may be copied, or files be put into another. A history of another run, and a
        # baseline in which faults were injected, were believed once: 7 of 1,045 corruptions of red
        # runs became green.
        owner = {"token": secrets.token_hex(8), "baselines": ()}
        directory.save_plan(plan.model_copy(update=owner))
        directory.write("env.json", json.dumps(env, indent=2))
        file = Path(plan.file)
        if file.suffix != ".py" and file.is_file():  # a scenario written in Python is in the plan
            directory.write("scenario.yaml", file.read_text(encoding="utf-8"))
        directory.keep_secrets(plan)
    except OSError as error:
        raise UsageError(
            f"cannot write there: {error.strerror}",
            "Choose a folder that can be written with --reports.",
            place=str(parent),
        ) from error
    return directory


def room_in(directory: RunDirectory) -> AbstractContextManager[None]:
    """Return a context that turns the error of a full disk into one with a remedy."""
    folder = shown(directory.path)
    return full_disk_told(folder, f"Make room; `chaos rejudge {folder}` judges what was seen.")


def fresh(parent: Path, name: str) -> Path:
    """Make a new folder, with a suffix if the name is taken."""
    parent.mkdir(parents=True, exist_ok=True)
    for suffix in ["", *(f"-{n}" for n in range(2, 1000))]:
        path = parent / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path.resolve()
    raise UsageError(f"a thousand runs named {name} are there already", place=str(parent))
