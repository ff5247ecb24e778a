"""Findings whose cause is looked for, and what becomes of one once its cause is shown."""

import pytest

from chaos.audit.finding import Finding, group_findings, merge_findings
from chaos.audit.run_row import DefectKey
from chaos.model.verdict import JobLine
from tests.audit.test_card import run_of

LATER = DefectKey(check="trajectory", gist="the numbers differ")


def lost(*parts: str, hint: str = "it was not saved") -> tuple[DefectKey, str]:
    return DefectKey(check="state", gist=f"{parts} lost", parts=parts), f"{parts} lost; {hint}"


@pytest.mark.parametrize(
    ("defect", "sentence", "is_open"),
    [
        (LATER, "the loss differs", True),
        (DefectKey(check="epochs", gist="14 epochs"), "14 epochs", True),
        (*lost("rng.torch"), True),
        (*lost("model.buffers"), True),
        (*lost("optimizer.exp_avg"), False),
        (
            *lost(
                "model.rest",
                hint="it was saved so, or changed after it was loaded: neither was seen",
            ),
            True,
        ),
        (DefectKey(check="start-decision", gist="began anew"), "began anew", False),
    ],
)
def test_a_cause_is_looked_for_where_no_check_names_it_for_certain(
    defect: DefectKey, sentence: str, is_open: bool
) -> None:
    run = run_of(1, defect).model_copy(update={"sentences": (sentence,)})

    (finding,) = group_findings([run])

    assert finding.is_open is is_open


def test_a_part_that_follows_from_the_cause_is_no_longer_named_as_lost() -> None:
    defect, sentence = lost("rng.torch")
    run = run_of(1, defect, LATER).model_copy(
        update={"sentences": (sentence, "the loss differs"), "faults": "rank 0 was killed; "}
    )
    (finding,) = group_findings([run])
    line = JobLine(role="made", names=("clip.history",), file="a.py", line=1, first=1)

    other = finding.add_proof("With `clip.history` it is right.", [line], ["clip.history"])
    same = finding.add_proof("With `rng.torch` it is right.", [line], ["rng.torch"])

    assert other.defect == LATER
    assert other.headline.endswith("the loss differs. With `clip.history` it is right.")
    assert (same.defect, same.lines) == (defect, (line,))


def test_a_generator_that_was_given_back_in_vain_makes_a_wrong_result() -> None:
    defect, sentence = lost("rng.torch")
    drawn = defect.model_copy(update={"severity": "not reproducible"})
    run = run_of(1, drawn, LATER).model_copy(
        update={"sentences": (sentence, "the loss differs"), "faults": "rank 0 was killed; "}
    )
    (finding,) = group_findings([run])

    tried = finding.add_failed_trial(
        "`rng.torch` did not come back, and giving it back did not help."
    )

    assert (finding.severity, tried.severity) == ("not reproducible", "wrong result")
    assert tried.defect == LATER
    assert tried.headline == (
        "Rank 0 was killed; the loss differs. "
        "`rng.torch` did not come back, and giving it back did not help."
    )
    assert Finding.model_validate_json(tried.model_dump_json()) == tried


def test_a_guess_is_not_told_beside_the_cause_that_was_shown() -> None:
    samples = DefectKey(check="sample-order", gist="others", parts=("inputs",))
    guess = ": the place in the data did not come back"
    run = run_of(1, samples).model_copy(
        update={
            "sentences": (f"samples are others{guess} (rank 0)",),
            "guesses": (guess,),
            "headline": f"Rank 0 was killed; samples are others{guess} (rank 0); the loss differs.",
        }
    )
    (finding,) = group_findings([run])

    shown = finding.add_proof("With `names` it is right.", [], ["names"])

    assert guess in finding.headline
    assert shown.headline == (
        "Rank 0 was killed; samples are others (rank 0); the loss differs. "
        "With `names` it is right."
    )
    assert guess not in shown.brief


def test_findings_that_were_shown_to_have_one_cause_are_one() -> None:
    samples = DefectKey(check="samples", gist="samples were left out")
    state = lost("rng.torch")[0].model_copy(update={"severity": "not reproducible"})
    runs = [run_of(1, samples), run_of(2, LATER), run_of(3, samples), run_of(4, state)]
    found = group_findings(runs)
    assert [one.runs for one in found] == [(1, 3), (4,), (2,)]

    alike = [one.add_proof("With `climbs` it is right.", [], ["climbs"]) for one in found]
    apart = [found[0], found[1].add_proof("With `few` it is right.", [], ["few"]), alike[2]]

    assert [(one.defect, one.runs, one.extent) for one in merge_findings(alike, runs)] == [
        (samples, (1, 2, 3), "3 places"),
        (state, (4,), "1 place"),
    ]
    assert merge_findings(apart, runs) == tuple(apart)
    assert merge_findings(found, runs) == found
