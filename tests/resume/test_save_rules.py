"""The rule by which each file of a run counts as a save, or does not."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.model import event as ev
from chaos.model.tiers import Tiers
from chaos.resume.files import RunFiles
from chaos.resume.save_evidence import SaveCopies
from chaos.resume.save_rules import (
    LOST_RULES,
    SERIES_RULES,
    JobEvidence,
    apply_rules,
    find_series,
)
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed

MODEL = ev.Component(name="model", digest="m", size=5.000001, count=2)
WEIGHTS = ev.SavedPart(name="net", digest="n", kind="numbers", size=5.000001)
STEP = ev.SavedPart(name="step", digest="o", kind="numbers", size=1.0)
IMAGE = {"saver": "image"}


def files_of(line: str, files: Mapping[str, Mapping[str, Any]] | None = None) -> RunFiles:
    """Return the files of a run; `files`: the fields that the events of some have."""
    history = changed(told_in(line), ev.StateSeen, components=(MODEL,))
    for name, fields in (files or {}).items():
        kind = ev.FileSaveBegun if "saver" in fields else ev.FileSaved
        history = changed(history, kind, partial(_is_named, name), **fields)
    return RunAnalysis(plan_of(line), history).run.files


def _is_named(name: str, event: ev.FileSaved | ev.FileSaveBegun) -> bool:
    return event.path.endswith(name)


@pytest.mark.parametrize(
    ("rule", "counts", "line", "name", "files"),
    [
        ("was-read", True, "w:f_1 x g l:f_1", "f_1", {"f_1": IMAGE}),
        ("was-read", True, "w:f_1 m:f_1>f_old x g l:f_1", "f_old", {}),
        ("was-read", False, "w:f_1 w:log_1 x g l:f_1", "log_1", {}),
        ("was-read", True, "w:/tmp/f_1 h:/tmp/f_1>/all/g_1 x g l:/tmp/f_1", "/all/g_1", {}),
        ("was-read", False, "w:/tmp/f_1 h:/tmp/f_1>/tmp/g_1 x g l:/tmp/f_1", "/tmp/g_1", {}),
        ("awaits-copy", False, "w:/tmp/f_1 k:/tmp/f_1>/all/f_1 s w:/tmp/f_2", "/tmp/f_2", {}),
        ("has-unknown-format", False, "w:plot_1", "plot_1", {"plot_1": IMAGE}),
        ("is-too-small", False, "w:sched", "sched", {"sched": {"share": 0.1}}),
        ("is-draft", False, "w:f_1 k:f_1>g_1", "f_1", {}),
        (
            "lacks-model",
            False,
            "@model=m s w:f_1 w:ship",
            "ship",
            {"f_1": {"parts": (WEIGHTS, STEP)}, "ship": {"parts": (WEIGHTS,)}},
        ),
        ("has-drawn-name", False, "w:/all/tmpabcdefgh/f_1", "/all/tmpabcdefgh/f_1", {}),
        ("looks-like-checkpoint", True, "w:f_1", "f_1", {}),
        ("looks-like-checkpoint", True, "w:a", "a", {"a": {"share": 0.5}}),
    ],
)
def test_the_first_rule_that_applies_decides_on_a_file(
    rule: str, counts: bool, line: str, name: str, files: Mapping[str, Mapping[str, Any]]
) -> None:
    run_files = files_of(f"g s {line} s .", files)
    copies = SaveCopies(run_files, Tiers({}, ()), start_number=10_000)

    answer = apply_rules(
        LOST_RULES,
        JobEvidence(run_files, copies, cwd="/job"),
        next(save for save in reversed(run_files.saves) if save.final_path == name),
    )

    assert answer == (rule, counts)


@pytest.mark.parametrize(
    ("rule", "counts", "name"),
    [
        ("is-unnamed-draft", False, "2.part"),
        ("is-of-same-series", True, "f_1"),
        ("is-of-same-series", False, "log_1"),
    ],
)
def test_a_newer_save_is_of_the_series_that_was_read(rule: str, counts: bool, name: str) -> None:
    files = files_of("g s w:1.part m:1.part>f_1 w:log_1 s w:2.part s x g l:f_1 s .")
    _, load = files.select_loads(1, 1)[0]  # the rank that renamed it

    answer = apply_rules(
        SERIES_RULES,
        find_series(files, load),
        next(save for save in files.saves if save.final_path == name),
    )

    assert answer == (rule, counts)
