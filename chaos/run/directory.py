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
from chaos.model.history import HISTORY, Baseline, History, build_repeat_name
from chaos.model.masking import has_secrets
from chaos.model.plan import Op, Plan
from chaos.model.verdict import Verdict
from chaos.plugins import mark_absent_faults
from chaos.run.display_path import format_path
from chaos.run.journal import load_history, write_history
from chaos.run.record_file import digest_history, read_small_file, translate_disk_errors, write_text

VERDICT = "verdict.json"
EPOCH_LENGTHS_FILE = "lengths.json"
RANK_COUNT_KEY = "ranks"  # in it: the number of ranks of the baseline
FIRST_SAVE = "first-save.json"  # of the baseline
INDEX_PREFIX = "index-"  # begins the name of a rank's index of the baseline
DRAWN = "drawn.chaos.yaml"
MARK = "CHAOSDIR.TAG"  # in a folder of reports
_MARK_TEXT = """\
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
    def save_records(self) -> Path:
        return self.path / "saves"

    @property
    def storage_faults(self) -> Path:
        return self.path / "storage-faults"

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    def remove_storage(self) -> None:
        """Remove the checkpoints, if they are in a folder that chaos has made."""
        for trial_storage in self.trials.glob("*/storage"):
            shutil.rmtree(trial_storage, ignore_errors=True)
        # It may be a link to a folder that all nodes share: that goes, and not the link alone.
        shutil.rmtree(self.storage.resolve(), ignore_errors=True)
        if self.storage.is_symlink():
            self.storage.unlink()

    def archive_first_try(self) -> None:
        """Move journals and logs to `tried-before`; remove what else the run had made."""
        archive = self.path / "tried-before"
        archive.mkdir()
        self.remove_storage()
        for folder in (self.storage_faults, self.trials):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.journals, self.logs):
            folder.rename(archive / folder.name)
            folder.mkdir()
        for file in self.save_records.iterdir():
            # Lengths, index and first save are of the baseline, and hold for the second try, too.
            # All else would be taken for saves of the try that begins.
            if file.name not in (EPOCH_LENGTHS_FILE, FIRST_SAVE) and not file.name.startswith(
                INDEX_PREFIX
            ):
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
            self.save_history(run, name=build_repeat_name(number))
        tokens = tuple(next(iter(run.tokens), "") for run in runs)
        if any(tokens):  # those of an older chaos have none
            self.save_plan(self.load_plan().replace(baselines=tokens))

    def load_baseline(self) -> Baseline | None:
        """Return the saved baseline, None if there is none; may raise `HistoryError`.

        All runs of an audit share the one in its folder.
        """
        owner = self
        if self.path.parent.name == "runs" and not os.path.lexists(
            self.path / build_repeat_name(1)
        ):
            owner = RunDirectory(self.path.parent.parent)
        runs: list[History] = []
        while os.path.lexists(owner.path / (name := build_repeat_name(len(runs) + 1))):
            runs.append(owner.load_history(name))
        return Baseline(runs) if runs else None

    def save_lengths(self, baseline: History | None) -> None:
        """Write the number of steps of rank 0 in each epoch that the baseline reports.

        A rank that ends between a save and the report after it cannot determine it. Epochs that
        end with a save of the job's own count as well; these are as long with as many ranks only.
        """
        if baseline is None:
            return
        ended_epochs = {report.epoch for _, report in baseline.select_events(ReportBegun)}
        ended_epochs |= {event.epoch for _, event in baseline.select_events(EpochEnded)}
        lengths = {str(epoch): 0 for epoch in sorted(ended_epochs)}
        has_own_ends = any(baseline.select_events(EpochEnded))
        for _, step in baseline.select_events(StepDone):
            if step.rank == 0 and step.epoch in ended_epochs:
                lengths[str(step.epoch)] = step.step
            elif has_own_ends and step.epoch in ended_epochs:
                lengths[f"{step.epoch}@{step.rank}"] = step.step
        if has_own_ends:
            lengths[RANK_COUNT_KEY] = 1 + max(
                (step.rank for _, step in baseline.select_events(StepDone)), default=0
            )
        self.save_records.mkdir(exist_ok=True)
        self.write(f"saves/{EPOCH_LENGTHS_FILE}", json.dumps(lengths))

    def save_verdict(self, verdict: Verdict) -> Verdict:
        """Write and return the verdict, with the digest of its history."""
        sealed = verdict.replace(history=digest_history(self.path / HISTORY))
        self.write(VERDICT, sealed.model_dump_json(indent=2))
        return sealed

    def load_verdict(self) -> Verdict | None:
        """Return the verdict, None if there is none, or if another version wrote it."""
        try:
            return Verdict.model_validate_json(read_small_file(self.path / VERDICT))
        except (OSError, ValidationError):
            return None

    def load_plan(self) -> Plan:
        path = self.path / "plan.json"
        try:
            content = read_small_file(path)
            plan = Plan.model_validate_json(_mark_absent_faults(content))
            return plan.replace(digest=_digest_of_plan(content))
        except OSError as error:
            raise HistoryError(
                f"cannot read the plan: {error.strerror}",
                "Give the directory of a run, such as reports/<scenario>/<seed>-<start>.",
                location=str(path),
            ) from error
        except ValidationError as error:
            first_error = error.errors()[0]
            field_path = ".".join(str(part) for part in first_error["loc"]) or "the file"
            raise HistoryError(
                f"not a plan of this version: {field_path}: {first_error['msg']}",
                "Make a new one with `chaos run` on the scenario beside it.",
                location=str(path),
            ) from error

    def load_env(self) -> dict[str, Any]:
        """Return the recorded versions and machine; empty if the file is missing."""
        path = self.path / "env.json"
        try:
            env = json.loads(read_small_file(path))
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
        if has_secrets(plan.model_dump(mode="json", exclude={"token", "baselines"})):
            for name in SECRET:
                with contextlib.suppress(FileNotFoundError):
                    # After each writing, as a file that is written whole is a new one.
                    (self.path / name).chmod(0o600)


def _mark_absent_faults(text: bytes) -> bytes:
    """Return a plan's text with absent faults marked; the same text if it is no JSON."""
    try:
        return mark_absent_faults(text, Op.model_fields)
    except (ValueError, RecursionError):
        return text


def _digest_of_plan(content: bytes) -> str:
    """Return a digest of plan.json, but for the baselines, which are added later."""
    fields = json.loads(content)
    fields.pop("baselines", None)
    return hashlib.blake2b(json.dumps(fields).encode(), digest_size=16).hexdigest()


def ensure_reports_folder(reports: Path, kind: str) -> Path:
    """Return a folder of the folder of reports, which is made if there is none, and marked.

    Below the mark, neither pytest nor `chaos run` of a folder around it takes a scenario for a new
    one. Git ignores what is in a folder that chaos has made.
    """
    # Not around the user's own files, as with `--reports .`.
    is_around = Path.cwd().is_relative_to(reports.resolve())
    with contextlib.suppress(OSError):  # of a folder that cannot be written, `create_run` tells
        if not is_around and not (reports / MARK).exists():
            is_new = not reports.exists() or not any(reports.iterdir())
            reports.mkdir(parents=True, exist_ok=True)
            write_text(reports / MARK, _MARK_TEXT)
            if is_new:
                write_text(reports / ".gitignore", "*\n")
    return reports / kind


def is_recorded(file: Path, *, root: Path) -> bool:
    """Return whether a file is in a folder of reports that lies below another folder."""
    report_folders = (
        folder for folder in file.parents if folder != root and root in folder.parents
    )
    return any((folder / MARK).is_file() for folder in report_folders)


def create_run(parent: Path, name: str, plan: Plan, env: dict[str, Any]) -> RunDirectory:
    """Make a run's folder, and save plan, environment and scenario in it.

    The saved plan has a token of its own, which the run's journals repeat. `name` gets a
    suffix if it is taken. Raises `UsageError` if the folder cannot be written.
    """
    try:
        directory = RunDirectory(create_folder(parent, name))
        directory.journals.mkdir()
        directory.logs.mkdir()
        directory.save_records.mkdir()
        # A folder may be copied, or files be put into another. A history of another run, and a
        # baseline in which faults were injected, were believed once: 7 of 1,045 corruptions of red
        # runs became green.
        identity = {"token": secrets.token_hex(8), "baselines": ()}
        directory.save_plan(plan.model_copy(update=identity))
        directory.write("env.json", json.dumps(env, indent=2))
        file = Path(plan.file)
        if file.suffix != ".py" and file.is_file():  # a scenario written in Python is in the plan
            directory.write("scenario.yaml", file.read_text(encoding="utf-8"))
        directory.keep_secrets(plan)
    except OSError as error:
        raise UsageError(
            f"cannot write there: {error.strerror}",
            "Choose a folder that can be written with --reports.",
            location=str(parent),
        ) from error
    return directory


def explain_full_disk(directory: RunDirectory) -> AbstractContextManager[None]:
    """Return a context that turns the error of a full disk into one with a remedy."""
    folder = format_path(directory.path)
    return translate_disk_errors(
        folder, f"Make room; `chaos rejudge {folder}` judges what was seen."
    )


def create_folder(parent: Path, name: str) -> Path:
    """Make a new folder, with a suffix if the name is taken."""
    parent.mkdir(parents=True, exist_ok=True)
    for suffix in ["", *(f"-{number}" for number in range(2, 1000))]:
        path = parent / f"{name}{suffix}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path.resolve()
    raise UsageError(f"a thousand runs named {name} are there already", location=str(parent))
