"""An audit from beginning to end, on a backend that only tells stories."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.audit.answer import find_reasons
from chaos.audit.audit import Audit, SiteChoice
from chaos.audit.budget import AuditProgress, Budget
from chaos.audit.card import Card
from chaos.audit.determinism import CleanRunComparison, compare_clean_runs
from chaos.audit.page import build_annotations, render_card
from chaos.audit.parts import find_omissions, list_parts
from chaos.audit.repro import confirm_finding
from chaos.audit.site_category import SiteCategory, list_site_categories
from chaos.check.prediction_band import HIDDEN_MAX
from chaos.errors import ClusterError, JobError
from chaos.harness import rejudge_run
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Op, Plan
from chaos.model.verdict import JobLine, Verdict
from chaos.report.markdown_parts import render_markdown_parts
from chaos.run.directory import RunDirectory
from chaos.run.ports import ShowEntries
from chaos.scenario_file.load import load_scenario
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, Ticking, audit_of, loses_momentum, misses_the_strike
from tests.check.story import Story
from tests.check.tamper import changed
from tests.check.test_prediction_band import noisy

FEW = SiteChoice(limit=20)
NOT_TOLD: set[SiteCategory] = {
    "answer of a put lost",
    "during validation",
    "fewer workers after it",
    "inside a load",
    "loader process lost",
    "save fails beside training",
}


@pytest.fixture(scope="module")
def survivor(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Card]:
    audit = audit_of(tmp_path_factory.mktemp("good"), FakeBackend(epochs=4, steps=4))
    return audit, audit.run()


@pytest.fixture(scope="module")
def guilty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Card]:
    backend = FakeBackend(defect=loses_momentum)
    audit = audit_of(tmp_path_factory.mktemp("bad"), backend, "--epochs", "4", choice=FEW)
    return audit, audit.run()


def test_a_job_that_comes_out_the_same_passes(survivor: tuple[Audit, Card]) -> None:
    _, card = survivor
    tried, places = card.places

    assert card.exit_code == 0, card.reasons
    assert card.right + card.scratch_count == len(card.runs) == tried >= 32 + 3 * 8
    assert {run.group for run in card.runs} == set(
        list_site_categories(LAUNCHER_FACTS["ray"])
    ) - NOT_TOLD
    resumes = f"{card.resumed} of {card.resumed} resumes right, {tried} of {places} places"
    assert card.sentence == f"pass: {resumes}"
    expect_text(card.badge)


def test_a_restart_that_began_anew_is_counted_apart(survivor: tuple[Audit, Card]) -> None:
    _, card = survivor

    early = [run for run in card.runs if run.group == "before the first commit"]
    assert early
    assert all((run.resumed, run.from_scratch) == (0, 1) for run in early)
    assert all(not run.parts for run in early)  # it had nothing to come back from
    late = [run for run in card.runs if run.group == "last epoch"]
    assert all((run.resumed, run.from_scratch) == (1, 0) for run in late)


def test_every_fault_of_a_job_that_survives_was_seen_to_land(survivor: tuple[Audit, Card]) -> None:
    _, card = survivor

    assert card.landed[0] == card.landed[1] > len(card.runs)
    assert all("trajectory" in run.evidence for run in card.runs)


def test_of_a_run_that_is_no_finding_only_three_files_stay(survivor: tuple[Audit, Card]) -> None:
    audit, card = survivor
    kept = {"plan.json", "history.jsonl", "verdict.json"}

    for run in card.runs:
        assert {path.name for path in audit.folder.run_directory(run.number).path.iterdir()} == kept


def test_an_audit_keeps_no_history_in_memory(survivor: tuple[Audit, Card]) -> None:
    audit, _ = survivor

    assert not any(isinstance(value, History) for row in audit._rows for _, value in row)


def test_a_planted_defect_is_one_finding_with_the_smallest_reproduction(
    guilty: tuple[Audit, Card],
) -> None:
    _, card = guilty

    assert card.exit_code == 1
    [finding] = card.findings
    assert finding.defect.check == "trajectory"
    assert finding.count == card.broken
    assert len(finding.smallest.ops) == 1
    broken = [run for run in card.runs if run.status == "fail" and len(run.ops) == 1]
    kills = [run for run in broken if run.ops[0].kind == "kill_worker"]
    assert finding.smallest.place.order == min(run.place.order for run in kills)


def test_before_the_first_commit_a_defect_of_resuming_does_not_show(
    guilty: tuple[Audit, Card],
) -> None:
    _, card = guilty

    early = [run for run in card.runs if run.group == "before the first commit"]
    assert early
    assert all(run.status == "pass" for run in early)


def test_github_is_shown_a_finding_at_the_line_that_saves_or_else_at_the_script(
    guilty: tuple[Audit, Card],
) -> None:
    _, card = guilty
    finding = card.findings[0]
    lines = tuple(
        JobLine.model_validate({"role": role, "file": "src/job.py", "line": line, "first": line})
        for line, role in enumerate(("made", "read", "saved"), 7)
    )
    placed = card.model_copy(
        update={"findings": (finding.model_copy(update={"lines": lines}), *card.findings[1:])}
    )

    (plain, *_), (at_line, *_) = build_annotations(card), build_annotations(placed)

    assert plain.startswith(f"::error file={card.job.script},line=1,title=")
    assert at_line.startswith("::error file=src/job.py")
    assert ",line=9,title=" in at_line
    assert at_line.endswith(f"chaos run {card.folder}/{finding.repro}")
    assert "src/job.py:9" in render_card(placed)
    assert "- **saved**: job.py:9" in render_markdown_parts(list_parts(placed))


def test_the_reproduction_is_a_scenario_of_the_same_ops(guilty: tuple[Audit, Card]) -> None:
    audit, card = guilty
    [finding] = card.findings

    scenario = load_scenario(audit.folder.path / finding.repro)

    read = tuple(Op.from_entry(index, entry) for index, entry in enumerate(scenario.faults))
    assert read == finding.smallest.ops
    assert scenario.expect.check == "trajectory"
    assert scenario.job.args == {"epochs": 4}


def test_a_findings_run_stands_by_itself(guilty: tuple[Audit, Card]) -> None:
    audit, card = guilty
    [finding] = card.findings
    directory = audit.folder.path / finding.report

    assert "<html" in directory.read_text()
    assert (directory.parent / "logs" / "driver.log").exists()
    assert rejudge_run(directory.parent).verdict.headline == finding.smallest.headline
    with_logs = list((audit.folder.path / "runs").glob("*/logs"))
    assert with_logs == [directory.parent / "logs"]


def test_the_card_comes_back_from_its_json(guilty: tuple[Audit, Card]) -> None:
    audit, card = guilty

    text = (audit.folder.path / "audit.json").read_text()

    assert Card.from_json(text) == card
    whole = json.loads(text)
    assert whole["findings"][0]["name"] == "trajectory"
    verdict = whole["verdict"]
    assert (verdict["sentence"], verdict["badge"]) == (card.sentence, card.badge)
    assert (verdict["exit_code"], verdict["word"]) == (1, "fail")
    assert verdict["severity"] == "wrong result"
    assert verdict["resumes"] == {"of": card.resumed, "right": card.resumed_right}
    assert verdict["places"] == {"of": card.places[1], "tried": len(card.runs)}
    assert (verdict["broken"], verdict["inconclusive"]) == (card.broken, 0)


def test_junit_has_a_case_for_every_strike(guilty: tuple[Audit, Card]) -> None:
    audit, card = guilty

    text = (audit.folder.path / "junit.xml").read_text()

    assert text.count("<testcase") == len(card.runs)
    assert f'failures="{card.broken}"' in text


def test_the_same_seed_strikes_the_same_places(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    names = [
        [run.name for run in audit_of(folder, FakeBackend(), choice=FEW).run().runs]
        for folder in (tmp_path, tmp_path / "b")
    ]

    assert names[0] == names[1]


def test_fewer_runs_than_an_answer_needs_are_inconclusive_and_say_so_beforehand(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    audit = audit_of(
        tmp_path,
        FakeBackend(),
        budget=Budget(runs=9),
        show_notes=lambda notes: told.extend(note.text for note in notes),
    )

    card = audit.run()

    assert card.ended == "budget"
    assert len(card.runs) == 9
    assert card.broken == 0
    assert card.exit_code == 2
    expect_text(card.sentence)
    assert any("needs 15 places; --max-runs 9" in text for text in told)
    assert any("--max-runs 9 was reached" in row for row in left_out(card))


def test_as_many_runs_as_an_answer_needs_are_enough(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(), budget=Budget(runs=15)).run()

    assert len(card.runs) == 15
    assert {run.group for run in card.runs} == set(
        list_site_categories(LAUNCHER_FACTS["ray"])
    ) - NOT_TOLD
    assert card.is_partial
    assert (card.exit_code, card.reasons) == (0, ())


def test_the_default_limit_does_not_cut_what_an_answer_needs(tmp_path: Path) -> None:
    audit = audit_of(tmp_path, FakeBackend(), budget=Budget(seconds=42.0, is_default=True))
    audit.clock = Ticking(tick_ns=1_000_000_000)  # a run takes some looks at it

    card = audit.run()

    assert card.ended == "budget"
    assert len(card.runs) == 15
    assert card.exit_code == 0
    assert not any("an answer needs" in note.text for note in card.notes)


def test_where_what_an_answer_needs_is_too_dear_it_is_said_before_any_fault(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    backend = FakeBackend()
    audit = audit_of(
        tmp_path,
        backend,
        budget=Budget(seconds=20),
        command="chaos audit train.py --time-limit 20s -- --epochs 4",
        show_notes=lambda notes: told.extend(
            note.text for note in notes if not any(plan.ops for plan in backend.plans)
        ),
    )

    audit.clock = Ticking(tick_ns=1_000_000_000)

    card = audit.run()

    assert card.exit_code == 2
    assert 0 < len(card.runs) < 15
    [dear] = [text for text in told if "an answer needs 8 runs with faults" in text]
    assert re.search(r"-limit \d+s -- --epochs 4`", dear)
    assert "--time-limit 20s ended the" in card.sentence


def test_where_the_clean_runs_took_all_the_time_the_most_telling_places_are_tried(
    tmp_path: Path,
) -> None:
    budget = Budget(seconds=1, is_default=True)
    audit = audit_of(tmp_path, FakeBackend(defect=loses_momentum), budget=budget)
    audit.clock = Ticking(tick_ns=1_000_000_000)

    card = audit.run()

    assert {run.group for run in card.runs} == {"mid-epoch", "inside a save"}
    assert card.word == "fail"


def test_a_finding_stands_however_little_was_tried(tmp_path: Path) -> None:
    backend = FakeBackend(defect=loses_momentum)

    card = audit_of(tmp_path, backend, budget=Budget(runs=2)).run()

    assert card.exit_code == 1
    expect_text(card.sentence)


def test_of_a_job_that_saves_nothing_no_restart_is_called_right(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(every=99), choice=FEW).run()

    assert card.exit_code == 2
    assert card.resumed == 0
    assert card.scratch_count == len(card.runs)
    assert "the job saves no checkpoint, so every restart began anew" in card.sentence


def test_of_places_before_the_first_commit_alone_nothing_follows(tmp_path: Path) -> None:
    choice = SiteChoice(groups=("before the first commit",))

    card = audit_of(tmp_path, FakeBackend(), choice=choice).run()

    assert card.exit_code == 2
    assert "no restart had a checkpoint to go on from" in card.sentence


def test_a_job_that_shows_nothing_to_compare_is_inconclusive(tmp_path: Path) -> None:
    class Blind(FakeBackend):
        def history(self, plan: Plan) -> History:
            unseen = (ev.StateSeen, ev.LossResolved)
            told = changed(super().history(plan), ev.StepDone, losses=None, inputs=None)
            told = changed(told, ev.Committed, metrics=lambda e: ({"epoch": e.epoch},) * 2)
            return History([entry for entry in told if not isinstance(entry.event, unseen)])

    card = audit_of(tmp_path, Blind(), choice=FEW).run()

    assert card.exit_code == 2
    expect_text(" ".join(card.reasons))
    assert any("report a metric of the model" in note.text for note in card.notes)


def test_what_a_person_accepts_is_in_the_plan_of_every_run(tmp_path: Path) -> None:
    backend = FakeBackend()
    audit = audit_of(tmp_path, backend, choice=FEW, budget=Budget(runs=1))
    expect = audit.plan.expect.model_copy(update={"accept": ("rng",)})
    audit.plan = audit.plan.model_copy(update={"expect": expect})

    card = audit.run()

    assert card.accept == ("rng",)
    assert {plan.expect.accept for plan in backend.plans if plan.ops} == {("rng",)}


def test_progress_counts_up_and_estimates_what_is_left(tmp_path: Path) -> None:
    seen: list[AuditProgress] = []
    card = audit_of(tmp_path, FakeBackend(), choice=FEW, show=seen.append).run()

    clean = [progress for progress in seen if progress.stage == "clean run"]
    assert [(p.done, p.activity) for p in clean if p.activity == "its script starts: imports"] == [
        (0, "its script starts: imports"),
        (1, "its script starts: imports"),
    ]
    assert {progress.activity for progress in clean} == {"its script starts: imports", "it ends"}
    injected = [progress for progress in seen if progress.stage == "faults"]
    done = [progress.done for progress in injected]
    assert (done[0], done[-1]) == (0, len(card.runs))
    assert done == sorted(done)
    assert injected[-1].total == len(card.runs)
    assert injected[0].remaining_s is None
    assert injected[-1].remaining_s == 0


def test_an_interrupted_audit_leaves_a_card_of_what_was_struck(tmp_path: Path) -> None:
    audit = audit_of(tmp_path, FakeBackend(breaks_at=10))

    with pytest.raises(KeyboardInterrupt):
        audit.run()

    card = Card.from_json((audit.folder.path / "audit.json").read_text())
    assert card.ended == "interrupted"
    assert len(card.runs) == 14  # of seven runs, some with several faults
    assert (audit.folder.path / "card.html").exists()
    assert len(RunDirectory(audit.folder.path / "runs" / "7").load_history()) == 20


def test_a_place_whose_fault_was_not_seen_to_land_was_not_tried(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(defect=misses_the_strike), choice=FEW).run()

    assert card.exit_code == 2
    assert {run.group for run in card.inconclusive} == {"node lost"}
    expect_text(card.sentence)
    assert card.places[0] == len(card.runs) - len(card.inconclusive)
    assert not card.findings


def test_the_scripts_own_number_of_workers_is_followed(tmp_path: Path) -> None:
    backend = FakeBackend(workers=3)
    card = audit_of(tmp_path, backend, choice=FEW).run()

    assert card.job.workers == 3
    assert {plan.job.workers for plan in backend.plans[1:]} == {3}


def test_retries_are_raised_to_what_a_strike_needs_and_the_card_says_so(tmp_path: Path) -> None:
    backend = FakeBackend(settings={"max_failures": 1})
    card = audit_of(tmp_path, backend, choice=replace(FEW, one_by_one=True)).run()

    assert card.exit_code == 0
    expect_text("\n".join(map(str, card.replaced)))


def test_retries_that_are_enough_are_the_jobs_own(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(settings={"max_failures": 9}), choice=FEW).run()

    assert [row.name for row in card.replaced] == ["name"]


def test_a_job_that_fails_by_itself_is_not_audited(tmp_path: Path) -> None:
    def fails(_: Story, history: History) -> History:
        return history

    class Failing(FakeBackend):
        def history(self, plan: Plan) -> History:
            quiet = super().history(plan)
            kept = [entry for entry in quiet if not isinstance(entry.event, ev.FitReturned)]
            return History(kept)

    audit = audit_of(tmp_path, Failing(defect=fails))

    with pytest.raises(JobError, match="fails without any fault"):
        audit.run()


# -- confirmation --------------------------------------------------------------------------


def verdict(status: Any, *, as_expected: bool = False) -> Verdict:
    return Verdict(
        status=status,
        headline="What was seen there.",
        as_expected=as_expected,
        expectation="",
        results=(),
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (verdict("fail", as_expected=True), "confirmed"),
        (verdict("fail"), "broken as well, in another way"),
        (verdict("pass"), "not confirmed"),
        (verdict("inconclusive"), "could not be confirmed"),
    ],
)
def test_a_finding_says_what_another_backend_made_of_it(
    guilty: tuple[Audit, Card], seen: Verdict, said: str
) -> None:
    audit, card = guilty
    [finding] = card.findings
    plans: list[Plan] = []

    def confirm(plan: Plan) -> Verdict:
        plans.append(plan)
        return seen

    file = audit.folder.path / finding.repro
    confirmed = confirm_finding(file, confirm, seed=0, cwd=Path(audit.plan.cwd))

    assert str(confirmed) == said
    assert [plan.ops for plan in plans] == [finding.smallest.ops]
    assert plans[0].job.script == audit.plan.job.script


def test_a_confirmation_stands_on_the_card_and_one_that_cannot_be_had_leaves_it_open(
    tmp_path: Path,
) -> None:
    def confirm(plan: Plan, *, show: ShowEntries) -> Verdict:
        del plan, show
        raise ClusterError("no cluster could be had")

    audit = audit_of(tmp_path, FakeBackend(defect=loses_momentum), choice=FEW, confirm=confirm)
    [finding] = audit.run().findings

    assert finding.confirmation is not None
    assert finding.confirmation.state == "open"
    assert "no cluster could be had" in (audit.folder.path / "card.html").read_text()


def test_a_finding_of_a_job_that_writes_outside_is_not_tried_there_and_the_card_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.audit.baseline_runs.CleanResult.is_self_contained", False)
    audit = audit_of(
        tmp_path,
        FakeBackend(defect=loses_momentum),
        choice=FEW,
        confirm=lambda *_, **__: pytest.fail("it was tried"),
    )

    card = audit.run()

    assert card.findings[0].confirmation is None
    assert "no finding was tried on a Ray cluster" in card.notes[-1].text
    assert card.notes[-1].text in " ".join((audit.folder.path / "audit.json").read_text().split())


def left_out(card: Card) -> list[str]:
    return list(find_omissions(card).values())


def test_a_job_that_does_not_repeat_itself_is_judged_by_the_band_of_five_clean_runs(
    tmp_path: Path,
) -> None:
    class NoisyBackend(FakeBackend):
        def history(self, plan: Plan) -> History:
            return noisy(super().history(plan), seed=len(self.plans))

    backend = NoisyBackend()

    card = audit_of(tmp_path, backend, choice=FEW).run()

    assert sum(not plan.ops for plan in backend.plans) == 5 + 1  # one is of another start
    assert {plan.expect.band for plan in backend.plans if plan.ops} == {"standard"}
    assert card.broken == 0
    assert "five clean runs" in str(card.repetition)
    assert card.repetition.hidden_part is not None
    assert (card.exit_code == 2) == (card.repetition.hidden_part > HIDDEN_MAX)


def test_of_a_job_that_reports_by_the_clock_one_resume_is_no_pass(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(), choice=FEW).run()
    assert card.word == "pass"

    by_clock = {"reports_apart": "4 reports in one, 7 in the other"}
    apart = card.model_copy(update={"repetition": card.repetition.model_copy(update=by_clock)})
    once = [run for run in card.runs if run.resumed and run.is_right][:1]

    assert apart.word == "pass"
    few = apart.model_copy(update={"runs": tuple(once)})
    assert any("only 1 restart went on from a" in why for why in find_reasons(few))


def test_a_job_that_reports_elsewhere_and_trains_otherwise_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apart(first: History, second: History) -> CleanRunComparison:
        told = compare_clean_runs(first, second)
        apart = {"reports_apart": "9 reports in one, 11 in the other", "inputs_apart": "step 3"}
        return told.model_copy(update=apart)

    monkeypatch.setattr("chaos.audit.baseline_runs.compare_clean_runs", apart)
    card = audit_of(tmp_path, FakeBackend(defect=loses_momentum), choice=FEW).run()

    assert card.exit_code == 2
    assert not card.runs
    expect_text(card.sentence)
