"""Every check on three histories written by hand: kept, broken, and not to be told.

A row: the check, its baseline, a run that keeps the promise, one that breaks
it with the words that say so, and one (or None: judged without the baseline)
that leaves it open. See `shorthand` for the words.
"""

import pytest

from chaos.check.judge import CHECKS
from chaos.model.verdict import CheckResult
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in

PLAIN = "g s s r c s s r c ."
KEPT = "g s s r c s x g<c0 s s r c ."
UNSEEN = "g s s r c s x ."
STATE = "g @model=0,opt= s s r c @model=2,opt=2 s s r c ."
FED = "g s:ab/cd s:ef/gh r c s:ga/hb s:ce/df r c ."
FILES = "g s w:f_1 s r c- s w:f_2 s r c- ."
STORED = "g s u r c s u r c L:c0,c1 ."
ROWS: dict[str, tuple[str, str, str, str, str | None]] = {
    "faults-happened": (PLAIN, KEPT, "", "", "g s s r c s i s r c ."),
    "start-decision": (
        PLAIN,
        "g s s r c s x g<c0 s s r c .",
        "g s s r c s x g<c0 l:m.pt! s s r c .",
        "could not read m.pt (EOFError: ran out of input), and trained from scratch",
        UNSEEN,
    ),
    "committed-only": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c7 s s r c .",
        "attempt 1 was handed c7, which was never committed",
        UNSEEN,
    ),
    "agreement": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0/- s s r c .",
        "attempt 1 was not handed one checkpoint: rank 0 c0, rank 1 nothing",
        UNSEEN,
    ),
    "resume-point": (
        "g s r c s r c s r c .",
        "g s r c s r c s x g<c1 s r c .",
        "g s r c s r c s x g<c0 s r c s r c .",
        "attempt 1 was handed c0 (epoch 0), although c1 (epoch 1) was committed after it",
        UNSEEN,
    ),
    "cursor": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0 s s s r c .",
        "rank 0 repeated 1 step of epoch 1 after the restart: 3 instead of 2",
        None,
    ),
    "state": (
        STATE,
        "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt=2 s s r c .",
        "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt= s s! r c .",
        "ranks 0 and 1: optimizer.momentum_buffer is not restored after the resume at epoch 1",
        "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 s s r c .",
    ),
    "rank-randomness": (
        "g @rng=1/2 s s r c @rng=3/4 s s r c .",
        "g @rng=1/2 s s r c @rng=3/4 s x g<c0 @rng=3/4 s s r c .",
        "g @rng=1/2 s s r c @rng=3/4 s x g<c0 @rng=3/3 s s! r c .",
        "rank 1 went on with rng.torch of rank 0 at epoch 1",
        None,
    ),
    "replicas": (
        STATE,
        "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt=2 s s r c .",
        "g @model=0,opt= s s r c @model=2,opt=2 s x g<c0 @model=2,opt=2/3 s s r c .",
        "from epoch 1, step 0 on, optimizer.momentum_buffer is not the same on all ranks",
        None,
    ),
    "selection": (
        "g s r c,best=3 s r c,best=3 s r c,best=4 .",
        "g s r c,best=3 s r c,best=3 s x g<c1 s r c,best=4 .",
        "g s r c,best=3 s r c,best=3 s x g<c1 s r c,best=1 .",
        "`best` is 1 at the report of epoch 2, 4 in the baseline",
        None,
    ),
    "batch": (
        "g s*2 s*2 r c s*2 s*2 r c .",
        "g s*2 s*2 r c s*2 x g<c0 s*2 s*2 r c .",
        "g s*2 s*2 r c s*2 x g<c0 s s*2 r c .",
        "step 1 of epoch 1 saw an unknown number of samples in 2 micro-batches, in the baseline",
        None,
    ),
    "sample-order": (
        FED,
        "g s:ab/cd s:ef/gh r c s:ga/hb x g<c0 s:ga/hb s:ce/df r c .",
        "g s:ab/cd s:ef/gh r c s:ga/hb x g<c0 s:ab/cd s:ef/gh r c .",
        "epoch 1 was trained in the order of epoch 0",
        "g s s r c s x g<c0 s s r c .",
    ),
    "samples": (
        FED,
        "g s:ab/cd s:ef/gh r c s:ga/hb x g<c0 s:ga/hb s:ce/df r c .",
        "g s:ab/cd s:ef/gh r c s:ga/hb x g<c0 s:ga/hb s:ca/df r c .",
        "epoch 1: of 8 samples, 1 were never trained, and 1 once too often",
        None,
    ),
    "epochs": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0 s s r c s s r c .",
        "3 epochs were trained, the baseline has 2",
        None,
    ),
    "metrics": (
        "g s r c,n=1 s r c,n=2 s r c,n=3 .",
        "g s r c,n=1 s r c,n=2 s x g<c1 s r c,n=3 .",
        "g s r c,n=1 s r c,n=2 s x g<c1 s r c,n=1 .",
        "counter `n` goes back at the report of epoch 2: 1 instead of 3",
        None,
    ),
    "checkpoints": (
        STORED,
        "g s u r c s x g<c0 s u r c L:c0,c1 .",
        "g s u r c s x g<c0 s u r c L:c0~,c1 .",
        "c0 of epoch 0 was committed, and when the run was over it has another 0.pt",
        "g s u r c s x g<c0 s u r c .",
    ),
    "artifacts": (
        "g s w:f=1 r c s w:f=2 r c s w:f=3 r c .",
        "g s w:f=1 r c s w:f=2 x g<c0 s w:f=2 r c s w:f=3 r c .",
        "g s w:f=1 r c s w:f=2 x g<c0 s w:f=1 r c s w:f=2 r c .",
        "from epoch 1, step 1 on `ship` in f differs (rank 0): 1 instead of 2",
        "g s w:f=1 r c s x g<c0 s r c s r c .",
    ),
    "retention": (
        "g s r c s d:c0 r c L:c1 .",
        "g s r c s x g<c0 s r d:c0 c L:c1 .",
        "g s r c d:c0 s x g<c0 s r c L:c1 .",
        "c0 (epoch 0) was removed while it was the newest that was committed",
        "g s r c s x g<c0 s r c .",
    ),
    "single-writer": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0 s +2 z s r c .",
        "attempt 0 was still at work 2.0 s after the next one was opened: a step of rank",
        "H",
    ),
    "leftovers": (PLAIN, KEPT, f"{KEPT[:-1]}left .", "a process outlived the run: pid 7", "g s H"),
    "retry-budget": (
        PLAIN,
        KEPT,
        "g s s r c s y g<c0 s s r c .",
        "a fault ended attempt 0, and Ray charged it to no budget",
        "g s s r c s x g<c0",
    ),
    "attempts": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0 g<c0 s s r c .",
        "nothing was done to attempt 1, and attempt 2 followed it",
        "g s s r c s x g<c0",
    ),
    "drain": (
        PLAIN,
        "g s s r c s n +1 X g<c0 s s r c .",
        "g s s r c s n:g +1 X g<c0 s s r c .",
        "attempt 1 put rank 1 on a node that was announced to go",
        "g s s r c s n",
    ),
    "ack": (
        PLAIN,
        "g s s r c s x g<c0 s s r c end:0 end:1 .c1",
        "g s s r c s x g<c0 s s r c s r end:0 end:1 .c1",
        "the report of epoch 2 returned on every rank of attempt 1",
        "g s s r end:0 end:1 .",
    ),
    "outcome": (PLAIN, KEPT, "g .", "fit() returned, and not one step was trained", "g s s H"),
    "recovery": (
        PLAIN,
        KEPT,
        "g s s r c s x +130 g<c0 s s r c .",
        "attempt 1 made its first step 131.0 s after the fault; 120 s are allowed",
        UNSEEN,
    ),
    "lost-work": (
        PLAIN,
        KEPT,
        "g s s r c s s s s x g<c0 s s r c .",
        "attempt 1 threw away 4 finished steps of rank 0; 2 are allowed",
        None,
    ),
    "bystanders": (
        "g s s r c s s r c t:a .",
        "g s s r c s x g<c0 s s r c t:a .",
        "g s s r c s x g<c0 s s r c t:b .",
        "trial 1, which nothing was done to, has other losses than in the baseline: rank 0, epoch",
        None,
    ),
    "progress": (
        PLAIN,
        "g s s r c s x g<c0 s +60 s r c .",
        "g s s r c s x g<c0 s +200 s r c .",
        "nothing was done for 200 s after rank 1's step 1 of epoch 1; 120 s are allowed",
        "g H",
    ),
    "terminates": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0 s +30 H",
        "not over at its limit of 240 s: the last progress was rank 1's step 1 of epoch 1",
        "g s s r c",
    ),
    "trajectory": (
        PLAIN,
        KEPT,
        "g s s r c s x g<c0 s s! r c .",
        "from epoch 1, step 2 on (rank 0) the loss differs",
        None,
    ),
    "watched": (PLAIN, KEPT, "", "", "g s s r c s1 s x g<c0 s s r c ."),
}


def result(check: str, baseline: str, run: str, *, alone: bool = False) -> CheckResult:
    reference = None if alone else told_in(baseline)
    verdict = judge_each(plan_of(run), told_in(run), reference)
    return next(found for found in verdict.results if found.check == check)


def test_every_check_has_its_histories() -> None:
    assert set(ROWS) == {check.NAME for check in CHECKS}


@pytest.mark.parametrize("check", ROWS)
def test_a_promise_that_is_kept_is_valid_on_evidence(check: str) -> None:
    baseline, kept, *_ = ROWS[check]

    found = result(check, baseline, kept)

    assert found.status == "pass", found.summary
    assert found.evidence > 0, found.summary


@pytest.mark.parametrize("check", [name for name, row in ROWS.items() if row[2]])
def test_a_promise_that_is_broken_is_told_in_words(check: str) -> None:
    baseline, _, broken, words, _ = ROWS[check]

    found = result(check, baseline, broken)

    assert found.status == "fail", found.summary
    assert any(words in anomaly.message for anomaly in found.anomalies), found.summary
    assert all(anomaly.events for anomaly in found.anomalies)


@pytest.mark.parametrize("check", ROWS)
def test_a_promise_that_cannot_be_told_is_unknown(check: str) -> None:
    baseline, kept, *_, unseen = ROWS[check]

    found = result(check, baseline, unseen or kept, alone=unseen is None)

    assert found.status == "inconclusive", found.summary
