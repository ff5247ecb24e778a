"""What two clean runs show of a job."""

from dataclasses import replace
from typing import Any

import pytest

from chaos.audit.determinism import compare_clean_runs
from chaos.audit.job_profile import measure_job
from chaos.audit.notes import Note, build_notes, note_resume_option
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.places import EpochRank
from tests.accepted import expect_text
from tests.check.story import Story
from tests.check.tamper import changed

QUIET = Story(epochs=3, steps=4).history()


def with_fit(
    history: History, *, replaced: dict[str, Any] | None = None, **settings: Any
) -> History:
    fit = ev.FitCalled(
        trainer="TorchTrainer",
        workers=2,
        run_name="ours",
        storage_path="/s",
        settings=settings,
        original_settings=replaced or {},
    )
    first = history[0]
    return History(
        [first, JournalEntry(time_ns=first.time_ns, source="d", seq=0, event=fit), *history[1:]]
    )


def said(history: History, *names: str) -> str:
    return "\n".join(
        f"{note.kind}: {note.text}" for note in build_notes(measure_job(history), names=names)
    )


def test_the_extent_counts_what_a_clean_run_did() -> None:
    seen = measure_job(QUIET)

    assert seen.ranks == (0, 1)
    assert seen.epochs == seen.saved_epochs == (0, 1, 2)
    assert seen.steps == {(e, r): 4 for e in range(3) for r in range(2)}
    assert seen.uploads == tuple((e, r) for e in range(3) for r in range(2))
    assert seen.remaining_s[0] > seen.remaining_s[1] > seen.remaining_s[2] > 0
    assert seen.seconds > 0


def test_a_report_without_a_checkpoint_is_an_epoch_that_was_not_saved() -> None:
    seen = measure_job(Story(epochs=4, every=2).history())

    assert seen.epochs == (0, 1, 2, 3)
    assert seen.saved_epochs == (1, 3)
    expect_text(said(Story(epochs=4, every=2).history()))


def test_the_scripts_own_setting_is_what_chaos_replaced() -> None:
    seen = measure_job(with_fit(QUIET, replaced={"max_failures": 0}, max_failures=5, num_to_keep=2))

    assert seen.find_setting("max_failures") == 0
    assert seen.find_setting("num_to_keep") == 2
    assert seen.find_setting("no such setting") is None


def test_a_job_in_order_has_nothing_said_of_it() -> None:
    assert (
        build_notes(measure_job(with_fit(QUIET, max_failures=3)), names=["digits", "digits"]) == ()
    )


def test_what_a_job_does_with_its_data_is_a_note() -> None:
    found = build_notes(
        measure_job(with_fit(QUIET, max_failures=3)), names=[], habits=["one order"]
    )

    assert found == (Note(kind="note", text="one order"),)


def test_a_job_that_never_saves_is_warned_of() -> None:
    expect_text(said(Story(every=99).history()))


def test_a_job_that_keeps_files_of_its_own_is_not_said_to_save_nothing() -> None:
    text = said(Story(files=True).history())

    expect_text(text)
    assert "saves no checkpoint" not in text
    assert "warning" not in text


def test_no_retry_after_a_notice_is_warned_of() -> None:
    words = "warning: `max_preemption_failures` is 0"

    assert words in said(with_fit(QUIET, max_preemption_failures=0))
    assert words in said(with_fit(QUIET, replaced={"max_preemption_failures": 0}))
    assert said(with_fit(QUIET, max_preemption_failures=-1)) == ""


def test_of_a_job_whose_steps_are_not_seen_its_reports_say_how_long_it_went_on() -> None:
    seen = measure_job(History([e for e in QUIET if not isinstance(e.event, ev.StepDone)]))

    assert seen.steps == {}
    assert seen.remaining_s[0] > seen.remaining_s[1] > seen.remaining_s[2] > 0


def test_checkpoints_kept_by_their_score_are_told_of() -> None:
    history = with_fit(QUIET, checkpoint_score_attribute="accuracy", num_to_keep=2)

    assert "note: the best by `accuracy`" in said(history)


def test_that_only_rank_0_uploads_is_a_note_and_no_warning() -> None:
    alone = History(
        [e for e in QUIET if not (isinstance(e.event, ev.UploadEnded) and e.event.rank == 1)]
    )

    (note,) = build_notes(measure_job(alone), names=[])
    assert note.kind == "note"
    expect_text(note.text)


@pytest.mark.parametrize(
    "names",
    [
        ("run-2026-11-21", "run-2026-11-21"),
        ("train_20261121T1200",),
        ("run-1763690000",),
        ("a", "b"),
        ("0f3a2b1c-9d8e-4f00-8000-000000000000",),
    ],
)
def test_a_run_name_that_changes_at_every_start_is_told_of(names: tuple[str, ...]) -> None:
    expect_text(said(QUIET, *names))


@pytest.mark.parametrize("name", ["digits", "resnet50-v2", "run-12345", "lr-0.05"])
def test_a_run_name_that_stays_is_not(name: str) -> None:
    assert said(QUIET, name, name) == ""


def test_two_equal_clean_runs_show_that_the_job_repeats_itself() -> None:
    again = replace(Story(epochs=3, steps=4), budget=3).baseline()

    assert compare_clean_runs(QUIET, again).is_deterministic
    expect_text(str(compare_clean_runs(QUIET, again)))


def test_a_metric_that_differs_is_named_and_held_against_nobody() -> None:
    story = Story(epochs=3, wall=True)

    both = compare_clean_runs(story.history(), story.baseline())

    assert both.is_deterministic
    assert both.metrics_differing == ("seconds",)


def test_a_job_that_does_not_repeat_itself_is_shown_where_it_parts() -> None:
    other = changed(QUIET, ev.StepDone, lambda e: (e.epoch, e.step) == (1, 2), losses=(0.5,))

    both = compare_clean_runs(QUIET, other)

    assert not both.is_deterministic
    assert both.losses_differing == 2
    expect_text(str(both))


def test_without_losses_nothing_is_said_to_repeat() -> None:
    silent = changed(QUIET, ev.StepDone, losses=None)

    assert not compare_clean_runs(silent, silent).is_deterministic


def test_a_file_saved_after_the_last_report_has_a_column_of_its_own() -> None:
    seen = replace(measure_job(QUIET), saves=(EpochRank(3, 0),))

    assert (seen.epoch_last, seen.epoch_count) == (2, 4)


PARSER = "p = ArgumentParser()\np.add_argument('--epochs')\np.add_argument({})\n"


@pytest.mark.parametrize(
    ("argument", "given", "option"),
    [
        ("'--resume', action='store_true'", [], "--resume"),
        ('"-r", "--resume-from", type=str', ["--epochs", 3], "--resume-from"),
        ("'--auto_resume'", ["--resume", "x"], "--auto_resume"),
        ("'--resume'", ["--resume=latest"], None),
        ("'--auto_resume'", ["--auto-resume"], None),
        ("'--epochs', help='as with --resume'", [], None),
        ("'--lr')  # p.add_argument('--resume'", [], None),
    ],
)
def test_an_option_to_resume_that_no_start_is_given_is_told_of(
    argument: str, given: list[object], option: str | None
) -> None:
    found = note_resume_option(PARSER.format(argument), "train.py", given)

    said = f"train.py:3 has the option {option}, and no start is given it"
    assert found is None if option is None else found is not None and found.text.startswith(said)
