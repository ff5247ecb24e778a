"""What surviving work saved, beside what the baseline saved at the same place."""

from collections.abc import Callable
from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.parts import KILLED
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed, result_on

EPOCH = "s s w:m.pt u r c"
PLAIN = f"g {EPOCH} {EPOCH} {EPOCH} {EPOCH} L:c0,c1,c2,c3 ."
STRUCK = f"g {EPOCH} {EPOCH} s x g<c1 {EPOCH} {EPOCH} L:c0,c1,c2,c3 ."
TWICE = f"g {EPOCH} {EPOCH} s x g<c1 {EPOCH} s x g<c2 {EPOCH} L:c0,c1,c2,c3 ."
FIRST = f"g s x g {EPOCH} {EPOCH} {EPOCH} {EPOCH} L:c0,c1,c2,c3 ."

Counted = Callable[[ev.FileSaved], dict[str, int]]


def counting(history: History, counts: Counted) -> History:
    return changed(history, ev.FileSaved, counts=counts)


def right(saved: ev.FileSaved) -> dict[str, int]:
    return {"epoch": saved.epoch, "schedule.last_epoch": saved.epoch + 1, "seed": 7}


def relative(saved: ev.FileSaved) -> dict[str, int]:
    """Count epochs from the last start: the attempts begin at 0, 2 and 3."""
    return right(saved) | {"epoch": saved.epoch - (0, 2, 3)[saved.attempt]}


def checkpoints(line: str, counts: Counted, due: Counted = right, **expect: Any) -> CheckResult:
    run, baseline = counting(told_in(line), counts), counting(told_in(PLAIN), due)
    results = judge(plan_of(line, **expect), run, baseline).results
    return next(result for result in results if result.check == "checkpoints")


@pytest.mark.parametrize("line", [STRUCK, TWICE, FIRST])
def test_files_that_count_as_the_baseline_does_are_right(line: str) -> None:
    assert checkpoints(line, right).status == "pass"


def test_a_file_that_counts_anew_is_in_doubt_until_a_restart_from_it_is_seen() -> None:
    result = checkpoints(STRUCK, relative)

    assert result.status == "inconclusive"
    expect_text(result.summary)
    assert checkpoints(TWICE, relative).status == "pass"


def test_a_restart_before_it_settles_nothing() -> None:
    def late(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | ({"epoch": 0} if saved.attempt == 2 else {})

    assert checkpoints(TWICE, late).status == "inconclusive"


def test_a_count_that_need_not_be_the_same_can_be_named() -> None:
    assert checkpoints(STRUCK, relative, ignore_metrics=("epoch",)).status == "pass"


def test_a_number_that_does_not_count_is_no_doubt() -> None:
    def resumed(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | {"starts": saved.attempt}

    def never(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | {"starts": 0}

    assert checkpoints(STRUCK, resumed, never).status == "pass"


def test_a_count_that_was_another_before_the_fault_is_no_doubt() -> None:
    def clocked(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | {"saved_ms": 1000 + saved.epoch * 10}

    def earlier(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | {"saved_ms": 500 + saved.epoch * 10}

    assert checkpoints(STRUCK, clocked, earlier).status == "pass"


def test_without_a_save_before_the_fault_nothing_follows() -> None:
    def off(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | {"epoch": 9}

    assert checkpoints(FIRST, off).status == "pass"


def test_work_that_was_done_again_saved_nothing_that_matters() -> None:
    def odd(saved: ev.FileSaved) -> dict[str, int]:
        return right(saved) | ({"epoch": 9} if (saved.attempt, saved.epoch) == (1, 3) else {})

    line = f"g {EPOCH} {EPOCH} s x g<c1 {EPOCH} s s w:m.pt x g<c2 {EPOCH} L:c0,c1,c2,c3 ."

    assert checkpoints(line, odd).status == "pass"


def test_other_bytes_are_told_and_prove_nothing() -> None:
    def others(held: dict[str, str]) -> dict[str, str]:
        return {path: f"odd{digest}" for path, digest in held.items()}

    def stored(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(
                name=c.name, files=others(c.files) if c.name.startswith("checkpoint_1") else c.files
            )
            for c in seen.checkpoints
        )

    history = changed(
        KILLED.history(), ev.PartUploaded, lambda e: e.attempt, files=lambda e: others(e.files)
    )
    history = changed(history, ev.StorageSeen, checkpoints=stored)

    result = result_on("checkpoints", KILLED, history)

    assert result.status == "pass"
    expect_text(result.summary)
    assert result.measures["files_with_other_bytes"] == "rank_#.pt"


def test_bytes_that_were_others_before_the_fault_are_not_told() -> None:
    history = changed(
        KILLED.history(),
        ev.PartUploaded,
        files=lambda e: {k: f"odd{v}" for k, v in e.files.items()},
    )

    result = result_on("checkpoints", KILLED, history)

    assert result.measures.get("files_with_other_bytes") is None
