"""Findings are grouped by cause, each with its smallest reproduction."""

import pytest

from chaos.audit.finding import group_findings
from chaos.audit.run_row import Defect
from chaos.faults.kill_node import KillNode
from tests.audit.cards import EPOCHS, PARTED, run_of

CURSOR = Defect(check="cursor", kind="steps-repeated")


def lost_part(name: str) -> Defect:
    return Defect(check="state", kind="part-lost", parts=(name,), sentence=f"{name} is gone")


def test_one_cause_at_many_places_is_one_finding() -> None:
    [found] = group_findings([run_of(n, EPOCHS, PARTED) for n in range(5)])

    assert found.runs == (0, 1, 2, 3, 4)
    assert found.defect == EPOCHS.key


def test_one_part_that_is_lost_is_one_cause_whatever_is_lost_with_it() -> None:
    def lost(*parts: str) -> Defect:
        return Defect(check="state", kind="part-lost", parts=parts)

    alone, more, model = lost("momentum"), lost("momentum", "lr"), lost("model", "momentum")

    found = group_findings([run_of(1, alone), run_of(2, more), run_of(3, more), run_of(4, model)])

    assert [(one.defect, one.runs) for one in found] == [
        (alone.key, (1, 2, 3)),
        (model.key, (4,)),
    ]


def test_a_run_that_shows_a_more_frequent_cause_besides_belongs_to_it() -> None:
    files = Defect(check="artifacts", kind="file-missing")
    often = [run_of(n, files, PARTED) for n in range(3)]

    [found] = group_findings([*often, run_of(9, CURSOR, files, PARTED)])

    assert found.defect == files.key
    assert found.count == 4


def test_a_place_in_the_data_is_one_cause_whichever_sign_of_it_shows() -> None:
    samples = Defect(check="samples", kind="samples-missing")
    order = Defect(check="sample-order", kind="another-order", severity="not reproducible")

    [found] = group_findings(
        [run_of(1, CURSOR), run_of(2, samples), run_of(3, samples), run_of(4, order, PARTED)]
    )

    assert (found.defect, found.runs, found.severity) == (CURSOR.key, (1, 2, 3, 4), "wrong result")
    assert found.smallest.number == 1  # where training went on says more than what is missing


def test_a_place_in_the_data_is_a_second_cause_beside_what_chooses_no_inputs() -> None:
    samples = Defect(check="samples", kind="samples-missing", sentence="few samples")
    order = Defect(check="sample-order", kind="another-order", sentence="another order")
    rate = Defect(check="state", kind="part-lost", parts=("optimizer.lr",), sentence="lr is gone")
    model = Defect(check="state", kind="part-lost", parts=("model", "optimizer.lr"))

    both = group_findings([run_of(1, rate, order, samples).replace(faults="a fault; ")])

    assert [(one.defect, one.headline) for one in both] == [
        (rate.key, "Run 1."),
        (order.key, "A fault; another order."),
    ]
    assert [one.besides for one in both] == [(), ("state",)]
    assert len(group_findings([run_of(1, model, order)])) == 1


@pytest.mark.parametrize(
    ("wrong", "right", "parts", "words"),
    [
        (True, (False, False), ("rng.torch",), "a DataLoader without a `generator` draws"),
        (True, (False, False), ("model",), "(1 of 1, and none of 2 from an epoch's beginning)."),
        (True, (False,), ("model",), None),
        (True, (False, False, True), ("model",), None),
        (False, (False, False), ("model",), None),
    ],
)
def test_a_cause_that_shows_within_an_epoch_alone_says_so(
    wrong: bool, right: tuple[bool, ...], parts: tuple[str, ...], words: str | None
) -> None:
    lost = run_of(0, Defect(check="state", kind="part-lost", parts=parts))
    runs = [lost, *(run_of(1 + number) for number in range(len(right)))]
    told = [
        run.model_copy(update={"within": within})
        for run, within in zip(runs, (wrong, *right), strict=True)
    ]

    [found] = group_findings(told)

    assert (words is not None) == ("Only resumes from within an" in found.headline)
    assert words is None or words in found.headline


def test_each_of_two_causes_has_a_sentence_of_its_own() -> None:
    momentum, rate = lost_part("momentum"), lost_part("lr")

    found = group_findings([run_of(1, momentum, rate).replace(faults="a fault; ")])

    assert [one.headline for one in found] == ["Run 1.", "A fault; lr is gone."]


def test_the_example_of_a_cause_shows_that_cause_alone() -> None:
    momentum, rate = lost_part("momentum"), lost_part("lr")
    runs = [run_of(1, momentum, rate), run_of(2, rate, momentum), run_of(3, rate)]
    found = group_findings([run.replace(faults="a fault; ") for run in runs])

    assert [(one.defect, one.smallest.number) for one in found] == [
        (rate.key, 3),
        (momentum.key, 1),
    ]
    assert len({one.headline for one in found}) == len(found) == 2


def test_numbers_that_part_do_not_hide_a_defect_that_says_more() -> None:
    often = [run_of(n, PARTED) for n in range(6)]

    found = group_findings([*often, run_of(9, EPOCHS, PARTED)])

    assert [(one.defect, one.count) for one in found] == [(PARTED.key, 6), (EPOCHS.key, 1)]


def test_the_smallest_reproduction_has_the_fewest_ops_then_the_simplest_then_the_first() -> None:
    runs = [
        run_of(0, PARTED, steps=(1, 2)),
        run_of(1, PARTED, steps=(1,), kill_node=KillNode()),
        run_of(2, PARTED, steps=(5,)),
        run_of(3, PARTED, steps=(4,)),
    ]

    [found] = group_findings(runs)

    assert found.smallest.number == 3


def test_two_causes_of_one_check_have_files_of_their_own() -> None:
    other = Defect(check="trajectory", kind="something-else")

    names = [
        one.repro
        for one in group_findings([run_of(0, PARTED), run_of(1, PARTED), run_of(2, other)])
    ]

    assert names == ["repro/trajectory.chaos.yaml", "repro/trajectory_2.chaos.yaml"]


def test_one_kind_of_finding_is_one_cause_whatever_its_numbers_are() -> None:
    runs = [
        run_of(n, EPOCHS.replace(facts={"count": n}, sentence=f"{n} epochs were trained"))
        for n in (5, 6)
    ]

    [found] = group_findings(runs)

    assert (found.defect, found.facts) == (EPOCHS.key, {"count": 5})
    assert found.headline == "Run 5."
