"""Defects, told into the history of a right run that was struck once.

Each with the check that must name it first, and what that check must say.
"""

from collections.abc import Callable
from functools import partial

from chaos.model import event as ev
from chaos.model.history import History
from tests.check import mutate
from tests.check.tamper import changed, told, without

Mutation = Callable[[History], History]

_LEFT = ev.Leftover(kind="process", name="pid 9")
_ANOTHER = ev.WorkerGroupStarted(attempt=2, workers=())

BROKEN: dict[str, tuple[Mutation, str]] = {
    "resume from what was never committed": (
        lambda h: mutate.handed(h, "checkpoint_x"),
        "committed-only",
    ),
    "resume from scratch": (lambda h: mutate.handed(h, None), "resume-point"),
    "resume from an older commit": (mutate.handed_an_older_one, "resume-point"),
    "ranks disagree": (lambda h: mutate.handed(h, None, to_all=False), "agreement"),
    "repeat a step": (mutate.one_more, "cursor"),
    "skip a step": (mutate.without_the_first_epoch, "cursor"),
    "drop an epoch": (mutate.without_a_commit, "epochs"),
    "skip a step later": (mutate.without_a_later_step, "epochs"),
    "throw away more than a cadence": (mutate.overtrained, "lost-work"),
    "leave a process behind": (lambda h: told(h, _LEFT), "leftovers"),
    "charge the wrong budget": (
        lambda h: changed(
            h,
            ev.FailureDecided,
            charged=lambda e: "failures" if e.charged == "preemptions" else "preemptions",
        ),
        "retry-budget",
    ),
    "an attempt that nobody caused": (lambda h: told(h, _ANOTHER), "attempts"),
    "fewer workers than were asked for": (mutate.fewer_workers, "attempts"),
    "new work on a node that is to go": (mutate.on_a_doomed_node, "drain"),
    "another trial notices": (mutate.noticed, "bystanders"),
    "a failed load is swallowed": (mutate.swallowed, "start-decision"),
    "one rank loads no model": (
        partial(mutate.entered_otherwise, "model", rank=1),
        "agreement",
    ),
    "the momentum is lost": (mutate.lost_momentum, "state"),
    "the average is built anew": (partial(mutate.entered_otherwise, "ema"), "state"),
    "a generator is not restored": (partial(mutate.entered_otherwise, "rng.torch"), "state"),
    "rank 0's generator is on every rank": (mutate.copied_generator, "rank-randomness"),
    "a replica drifts": (mutate.drifting, "replicas"),
    "the best is forgotten": (mutate.forgotten_best, "selection"),
    "a batch is smaller": (mutate.smaller_batch, "batch"),
    "another epoch's order": (mutate.fed_another_epoch, "sample-order"),
    "a batch is trained twice": (mutate.fed_a_batch_twice, "samples"),
    "a counter begins anew": (mutate.counted_anew, "metrics"),
    "the newest checkpoint is removed": (mutate.retired, "retention"),
    "an average in a file begins anew": (mutate.averaged_anew, "artifacts"),
    "a checkpoint rots": (mutate.damaged, "checkpoints"),
    "an attempt comes back": (mutate.zombie, "single-writer"),
    "a result from elsewhere": (
        lambda h: changed(h, ev.FitReturned, checkpoint="checkpoint_9_9"),
        "ack",
    ),
    "the script fails": (
        lambda h: changed(without(h, ev.FitReturned), ev.DriverExited, code=1),
        "outcome",
    ),
    "the start takes too long": (mutate.late_start, "recovery"),
    "training stands still": (mutate.stalled, "progress"),
    "hang": (mutate.hung, "terminates"),
    "change the last bit of one loss": (mutate.last_bit, "trajectory"),
}
UNSEEN: dict[str, tuple[Mutation, str]] = {
    "the fault's end was not seen": (lambda h: without(h, ev.FaultEnded), "faults-happened"),
    "nobody looked for leftovers": (lambda h: without(h, ev.LeftoversSearched), "leftovers"),
    "the end was not seen": (lambda h: without(h, ev.RunEnded), "watched"),
    "what it was given after the resume": (
        lambda h: changed(h, ev.StepDone, lambda e: e.attempt == 1, inputs=None),
        "batch",
    ),
}
MUTATIONS: dict[str, tuple[Mutation, str, str]] = {
    **{name: (*row, "fail") for name, row in BROKEN.items()},
    **{name: (*row, "inconclusive") for name, row in UNSEEN.items()},
}
