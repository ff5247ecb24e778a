"""What the answers to a corpus come to, and how its file is read."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from chaos.errors import UsageError
from chaos.extensions.lab.selftest.corpus import (
    CorpusAnswer,
    CorpusJob,
    CorpusScore,
    is_answer_right,
    load_corpus,
    render_corpus,
    select_jobs,
)

BUG = CorpusJob(name="loses_momentum", workers=3, bug="momentum is not saved", parts=("optimizer",))
RIGHT = CorpusJob(name="odd", workers=2, odd="saves by the clock", honest="it never reports twice")
STRICT = CorpusJob(name="plain", workers=2, odd="nothing")


def answer(job: str, verdict: str, **more: object) -> CorpusAnswer:
    fields = {"job": job, "verdict": verdict, "sentence": "so it is", "runs": 10, "resumed": 8}
    return CorpusAnswer.model_validate({**fields, **more})


def score(*answers: CorpusAnswer) -> CorpusScore:
    return CorpusScore((BUG, RIGHT, STRICT), answers, {})


def test_all_as_it_is_ends_with_zero() -> None:
    good = score(
        answer(BUG.name, "fail", named=True, blamed=6),
        answer(RIGHT.name, "inconclusive"),
        answer(STRICT.name, "pass"),
    )

    assert good.exit_code == 0
    assert (good.detection_rate.count, good.naming_rate.count, good.blame_rate.count) == (1, 1, 0)
    assert good.undecided_rate.count == 1


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([answer(BUG.name, "pass")], 1),
        ([answer(STRICT.name, "fail", blamed=1)], 1),
        ([answer(STRICT.name, "pass", resumed=0)], 1),
        ([answer(STRICT.name, "inconclusive")], 2),
        ([answer(BUG.name, "inconclusive")], 2),
        ([answer(STRICT.name, "refused")], 2),
    ],
)
def test_what_is_not_the_truth_is_told_by_the_exit_code(
    answers: list[CorpusAnswer], code: int
) -> None:
    assert score(*answers).exit_code == code


def test_false_alarms_are_counted_over_the_runs_of_right_jobs_alone() -> None:
    rows = score(answer(BUG.name, "fail", blamed=9), answer(STRICT.name, "fail", blamed=2))

    assert (rows.false_alarm_rate.count, rows.false_alarm_rate.total) == (2, 10)


def test_a_pass_without_a_resume_is_named() -> None:
    assert score(answer(STRICT.name, "pass", resumed=0)).green_without_resume == ("plain",)


def test_a_bug_is_named_by_its_check_by_a_part_or_by_a_word() -> None:
    job = CorpusJob(name="x", workers=1, bug="b", checks=("batch",), parts=("ema",), words=("lag",))

    assert job.matches_finding("batch", (), "")
    message = "rank 0: ema.1 is not what it was"
    assert job.matches_finding("state", (), message)
    assert job.matches_finding("state", ("ema.1",), "it is not restored")
    assert job.matches_finding("state", (), "a lagging copy")
    assert not job.matches_finding("state", ("rng.torch",), "schema")


def test_a_found_bug_under_another_name_is_not_as_due() -> None:
    assert not is_answer_right(BUG, answer(BUG.name, "fail", named=False))


def test_both_tables_and_every_wrong_answer_are_shown() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(render_corpus(score(answer(BUG.name, "pass"), answer(STRICT.name, "pass"))))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()

    assert "job with a bug" in text
    assert "right job" in text
    assert "truth: momentum is not saved" in text
    assert "bugs found           0 of 1" in text


def test_a_file_that_is_no_corpus_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "corpus.yaml").write_text("- {name: x, worker: 2}\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"corpus\.yaml"):
        load_corpus(tmp_path)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus.yaml").write_text("- {name: x, workers: 2}\n", encoding="utf-8")

    with pytest.raises(UsageError, match=r"x\.py"):
        load_corpus(tmp_path)


def test_jobs_are_chosen_by_name_and_a_wrong_name_is_refused() -> None:
    assert select_jobs((BUG, RIGHT), ["odd"]) == (RIGHT,)
    with pytest.raises(UsageError, match="there is no job 'old'"):
        select_jobs((BUG, RIGHT), ["old"])
