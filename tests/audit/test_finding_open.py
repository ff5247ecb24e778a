"""Findings whose cause is looked for, and what becomes of one once its cause is shown."""

import pytest

from chaos.audit.finding import Finding, group_findings, merge_findings
from chaos.audit.run_row import Defect
from chaos.model.verdict import JobLine
from tests.accepted import expect_text
from tests.audit.cards import run_of

LATER = Defect(check="trajectory", kind="numbers-differ", sentence="the loss differs")


def lost(*parts: str, is_unexplained: bool = False) -> Defect:
    return Defect(
        check="state",
        kind="part-lost",
        parts=parts,
        sentence=f"{parts} lost",
        is_unexplained=is_unexplained,
    )


@pytest.mark.parametrize(
    ("defect", "is_open"),
    [
        (LATER, True),
        (Defect(check="epochs", kind="surplus-epochs"), True),
        (lost("rng.torch"), True),
        (lost("model.buffers"), True),
        (lost("optimizer.exp_avg"), False),
        (lost("model.rest", is_unexplained=True), True),
        (Defect(check="start-decision", kind="failed-load-ignored"), False),
    ],
)
def test_a_cause_is_looked_for_where_no_check_names_it_for_certain(
    defect: Defect, is_open: bool
) -> None:
    (finding,) = group_findings([run_of(1, defect)])

    assert finding.is_open is is_open


def test_a_part_that_follows_from_the_cause_is_no_longer_named_as_lost() -> None:
    defect = lost("rng.torch")
    run = run_of(1, defect, LATER).replace(faults="rank 0 was killed; ")
    (finding,) = group_findings([run])
    line = JobLine(role="made", names=("clip.history",), file="a.py", line=1, first=1)

    other = finding.add_proof("With `clip.history` it is right.", [line], ["clip.history"])
    same = finding.add_proof("With `rng.torch` it is right.", [line], ["rng.torch"])

    assert other.defect == LATER.key
    expect_text(other.headline)
    assert (same.defect, same.lines) == (defect.key, (line,))


def test_a_generator_that_was_given_back_in_vain_makes_a_wrong_result() -> None:
    drawn = lost("rng.torch").replace(severity="not reproducible")
    run = run_of(1, drawn, LATER).replace(faults="rank 0 was killed; ")
    (finding,) = group_findings([run])

    tried = finding.add_failed_trial(
        "`rng.torch` did not come back, and giving it back did not help."
    )

    assert (finding.severity, tried.severity) == ("not reproducible", "wrong result")
    assert tried.defect == LATER.key
    expect_text(tried.headline)
    assert Finding.model_validate_json(tried.model_dump_json()) == tried


def test_a_guess_is_not_told_beside_the_cause_that_was_shown() -> None:
    guess = ": the place in the data did not come back"
    samples = Defect(
        check="sample-order",
        kind="another-order",
        parts=("inputs",),
        sentence=f"samples are others{guess} (rank 0)",
        sentence_without_guess="samples are others (rank 0)",
    )
    run = run_of(1, samples).replace(
        headline=f"Rank 0 was killed; samples are others{guess} (rank 0); the loss differs.",
        headline_without_guess="Rank 0 was killed; samples are others (rank 0); the loss differs.",
    )
    (finding,) = group_findings([run])

    shown = finding.add_proof("With `names` it is right.", [], ["names"])

    assert guess in finding.headline
    expect_text(shown.headline)
    assert guess not in shown.brief


def test_findings_that_were_shown_to_have_one_cause_are_one() -> None:
    samples = Defect(check="samples", kind="samples-missing")
    state = lost("rng.torch").replace(severity="not reproducible")
    runs = [run_of(1, samples), run_of(2, LATER), run_of(3, samples), run_of(4, state)]
    found = group_findings(runs)
    assert [one.runs for one in found] == [(1, 3), (4,), (2,)]

    alike = [one.add_proof("With `climbs` it is right.", [], ["climbs"]) for one in found]
    apart = [found[0], found[1].add_proof("With `few` it is right.", [], ["few"]), alike[2]]

    assert [(one.defect, one.runs, one.extent) for one in merge_findings(alike, runs)] == [
        (samples.key, (1, 2, 3), "3 places"),
        (state.key, (4,), "1 place"),
    ]
    assert merge_findings(apart, runs) == tuple(apart)
    assert merge_findings(found, runs) == found
