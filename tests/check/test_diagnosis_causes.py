"""The sentence on a defect says what was seen of it, and blames nothing that only followed."""

from typing import Any

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.causes import with_files
from tests.check.each import judge_each
from tests.check.parts import KILLED, lost
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import (
    changed,
    differs_in_parts,
    result_on,
    shifted,
    told,
    verdict_on,
)
from tests.findings import expect_finding

BASE = "g s w:f s r c- s s r c- ."


def judged(line: str, **fields: Any) -> dict[str, str]:
    """Judge a line whose failed loads, or decisions, are told otherwise."""
    history = told_in(line)
    error, errors = fields.get("error"), fields.get("errors")
    if error is not None:
        history = changed(history, ev.FileLoaded, lambda e: e.error is not None, error=error)
    if errors is not None:
        history = changed(history, ev.FailureDecided, lambda e: e.attempt == 1, errors=errors)
    results = judge_each(plan_of(line), history, told_in(BASE)).results
    return {r.check: r.summary for r in results if r.status == "fail"}


# -- ends of attempts ------------------------------------------------------------------------------


def test_a_charge_that_no_fault_explains_names_the_first_error_and_not_what_it_ended() -> None:
    errors = {0: "ended by SIGTERM", 1: "KeyError: 'lr'"}
    charge = ev.FailureDecided(
        attempt=1, decision="RETRY", charged="failures", error="a worker ended", errors=errors
    )

    result = result_on("retry-budget", KILLED, told(KILLED.history(), charge))

    expect_finding(
        result, "charge-without-fault", attempt=1, setting="max_failures", error="KeyError: 'lr'"
    )


def test_a_file_that_torch_refuses_is_whole_and_gets_no_advice_on_writing() -> None:
    refused = (
        "UnpicklingError: \x1b[1mWeights only load failed\x1b[0m. This file can still be loaded"
    )

    told_of = judged("g s w:f s r c- s s r c- s x g l:f! g l:f! L", error=refused)["checkpoints"]

    assert "(UnpicklingError: Weights only load failed); the file is whole: save tensors" in told_of
    assert "rename" not in told_of


def test_a_file_that_was_renamed_into_its_place_is_known_by_both_names() -> None:
    line = "g s w:f.tmp s r c- s s r c- s x g l:f! g l:f! L"
    moved = ev.FileRenamed(attempt=0, rank=0, epoch=0, step=1, path="f.tmp", to="f")
    history = told(told_in(line), moved, before=ev.FaultInvoked)

    results = judge_each(plan_of(line), history, told_in(BASE)).results

    found = next(r for r in results if r.check == "checkpoints")
    expect_finding(found, "file-unreadable", rank=0, attempt=1, path="f")
    assert found.summary.endswith("; its writing was seen to end")


def test_an_attempt_that_raises_after_its_load_is_named_by_the_file_and_the_error() -> None:
    history = told_in("g s w:f s r c- s s r c- s x g l:f g l:f s r c- s s r c- .")
    errors = {0: "RuntimeError: Connection closed by peer", 1: "KeyError: 'lr'. So be it"}
    raised = ev.FailureDecided(
        attempt=1, decision="RETRY", charged="failures", error="", errors=errors
    )
    late = max(n for n, e in history.select_events(ev.FileLoaded) if e.attempt == 1)
    entries = list(history)
    entry = msgspec.structs.replace(entries[late], source="controller", event=raised)
    history = History([*entries[: late + 1], entry, *entries[late + 1 :]])
    plan = plan_of("g s w:f s r c- s s r c- s x g l:f g l:f s r c- s s r c- .")

    found = {r.check: r.summary for r in judge_each(plan, history, told_in(BASE)).broken}

    expect_text(found["checkpoints"])


def model_of(history: History) -> str:
    """Return the digest of the model with which rank 0 is due to enter epoch 2."""
    seen = next(
        e for _, e in history.select_events(ev.StateSeen) if (e.epoch, e.moment) == (2, "entered")
    )
    return next(part.digest for part in seen.components if part.name == "model")


ODD = ev.Component(name="model", digest="odd", size=7.0, count=4)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"tensors": "due"},
            ". The file that was read holds it: likely `model.load_state_dict`",
        ),
        ({"tensors": "odd"}, ". The file holds it so: what was saved is not the model that was"),
        (
            {"tensors": "x", "dtype": "bfloat16", "widened": "odd"},
            ". The file holds it rounded: saved as bfloat16, trained as float32; save the",
        ),
        ({"tensors": "x"}, ". It was saved so, or changed after it was loaded: neither was seen"),
    ],
)
def test_the_remedy_for_a_model_follows_from_what_the_file_holds(
    fields: dict[str, str], words: str
) -> None:
    due = model_of(KILLED.baseline())
    given: dict[str, Any] = {key: due if value == "due" else value for key, value in fields.items()}
    part = ev.SavedPart(name="model", kind="numbers", digest="x", **given)

    verdict = verdict_on(KILLED, with_files(lost("model", ODD), part))

    assert words in verdict.headline


# -- several restarts ------------------------------------------------------------------------------

THRICE = Story((Strike(2, 1, 0), Strike(2, 3, 1)))


def test_a_part_that_a_later_restart_shows_to_be_without_effect_is_a_note_in_all_of_them() -> None:
    scratch = differs_in_parts(
        THRICE.history(), "optimizer.momentum_buffer", digest="scratch", moment="entered", epoch=2
    )

    verdict = verdict_on(THRICE, scratch)

    assert verdict.status == "pass"
    assert any(note.startswith("optimizer.momentum_buffer did") for note in verdict.notes)


def test_it_is_a_finding_where_no_restart_shows_that() -> None:
    scratch = differs_in_parts(
        THRICE.history(), "optimizer.momentum_buffer", digest="scratch", moment="entered", epoch=2
    )

    assert verdict_on(THRICE, shifted(scratch, 2)).status == "fail"
