"""Did Ray charge every failure to the right retry budget?"""

from collections.abc import Iterator
from itertools import pairwise

from chaos.check.budgets import SETTINGS, UNLIMITED, charges
from chaos.check.result import conclude, plural
from chaos.check.trial import Trial
from chaos.model.event import ControllerState, FailureDecided
from chaos.model.verdict import Anomaly, CheckResult

NAME = "retry-budget"
START_TIMEOUT = "WorkerGroupStartupTimeoutError"
START_FAILED = "WorkerGroupStartupFailedError"


def check(trial: Trial) -> CheckResult:
    """Require one charge for each attempt that a fault ended, to the budget of that fault.

    The promise of the retry budget. A killed worker or node is a failure, a
    preempted node a preemption, and where both hit one attempt the
    preemption wins (Ray 2.60's policy: any preempted actor makes it one).
    One budget for both was ray-project/ray PR #41285. Nodes that join or stay
    away, and a driver that is started again, cost nothing. And each budget is
    kept: no retry beyond it (ray-project/ray#29171), and nothing given up
    below it; unknown where the limit in force is not known.
    """
    made = _Charges(trial)
    expected = trial.plan.expect.charges
    anomalies = [*made.by_itself(), *_broken_limits(trial)]
    doubts = [*_unknown_limits(trial)]
    if expected is None:
        anomalies += made.misplaced()
        open_ = [f"what {s.op} came to is not known" for s in trial.strikes if s.is_in_doubt]
        doubts += open_
        if not open_:
            anomalies += [*made.surplus(), *made.missing()]
    else:
        for budget in SETTINGS:
            anomalies += made.differing(budget, getattr(expected, budget))
            doubts += made.excused(budget, getattr(expected, budget))
    if not trial.run.ending.is_over:
        doubts.append("the run was not seen to its end")
    counts = {budget: len(made.to(budget)) for budget in (*SETTINGS, "controller")}
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(trial.run.attempts),
        summary=f"{plural(counts['failures'], 'failure')} and "
        f"{plural(counts['preemptions'], 'preemption')} charged, as due",
        measures={f"charged_{budget}": count for budget, count in counts.items()},
    )


def _broken_limits(trial: Trial) -> Iterator[Anomaly]:
    for charge in charges(trial):
        what = f"{plural(charge.spent, charge.event.charged.removesuffix('s'))} charged"
        is_open = charge.limit == UNLIMITED
        limit = f"`{charge.setting}` " + (
            "is without limit" if is_open else f"allows {charge.limit}"
        )
        if charge.is_overrun:
            message = f"{what}, {limit}, and Ray tried again after attempt {charge.event.attempt}"
            yield Anomaly(message=message, events=(charge.number,))
        if charge.was_given_up:
            message = f"{what}, {limit}, and Ray gave up after attempt {charge.event.attempt}"
            yield Anomaly(message=f"{message}: {_cause(charge.event)}", events=(charge.number,))


def _unknown_limits(trial: Trial) -> Iterator[str]:
    unknown = {charge.setting for charge in charges(trial) if charge.limit is None}
    for setting in sorted(unknown):
        yield f"the script's own `{setting}` is not known, so neither is whether it was kept"


class _Charges:
    """The decisions of Ray's controller that cost a retry, laid beside the faults."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        decided = trial.history.of(FailureDecided)
        self.rows = [(number, event) for number, event in decided if event.decision != "NOOP"]
        budgets = {a: {s.budget for s in hits} - {None} for a, hits in trial.hits.items()}
        self.due = {
            attempt: "preemptions" if "preemptions" in of else "failures"
            for attempt, of in budgets.items()
            if of
        }

    def to(self, budget: str) -> list[tuple[int, FailureDecided]]:
        """Give the decisions charged to one budget."""
        return [(number, event) for number, event in self.rows if event.charged == budget]

    def by_itself(self) -> Iterator[Anomaly]:
        """Give what Ray's controller failed in without anybody's doing."""
        for number, event in self.to("controller"):
            due = self._waits_for_room(event) or self._was_struck_in_its_start(event)
            if not self.trial.error_was_expected and not due:
                message = f"Ray's controller itself failed in attempt {event.attempt}"
                yield Anomaly(message=f"{message}: {event.error}", events=(number,))

    def _waits_for_room(self, event: FailureDecided) -> bool:
        """Say whether workers could not be placed in time because nodes had been lost.

        Ray 2.60 asks for as many as before until it has heard that they are
        gone; a start that times out costs none of the two budgets.
        """
        lost_nodes = any(
            strike.op.fault.nodes_lost and attempt <= event.attempt
            for attempt, hits in self.trial.hits.items()
            for strike in hits
        )
        return lost_nodes and event.decision == "RETRY" and START_TIMEOUT in event.error

    def _was_struck_in_its_start(self, event: FailureDecided) -> bool:
        """Say whether a fault took a worker while its group was still being started.

        To Ray 2.60 a group that cannot be started is a failure of its
        controller's, which costs none of the two budgets.
        """
        was_hit = event.attempt in self.trial.hits
        return was_hit and event.decision == "RETRY" and START_FAILED in event.error

    def misplaced(self) -> Iterator[Anomaly]:
        """Give what was charged to the wrong one of the two budgets."""
        for number, event in self.rows:
            due = self.due.get(event.attempt)
            if due is None or event.charged in (due, "controller"):
                continue
            if event.charged == "preemptions" and self._lost_under_notice(event.attempt):
                continue
            what = "a preemption" if due == "preemptions" else "a failure"
            yield Anomaly(
                message=f"attempt {event.attempt} ended by {what}, and Ray charged it to "
                f"{SETTINGS[event.charged]} instead of {SETTINGS[due]}: {event.error}",
                events=(number,),
            )

    def _lost_under_notice(self, attempt: int) -> bool:
        """Say whether a node was lost while a notice was in force: to Ray it was preempted."""
        announced = {
            (strike.invoked[0][1].attempt, strike.invoked[0][1].node_id)
            for strike in self.trial.strikes
            if strike.is_preemption and strike.invoked
        }
        return any(
            (attempt, strike.invoked[0][1].node_id) in announced
            for strike in self.trial.hits.get(attempt, ())
            if strike.op.fault.nodes_lost and not strike.is_preemption
        )

    def surplus(self) -> Iterator[Anomaly]:
        """Give what was charged without a fault, or twice for one."""
        charged: set[int] = set()
        for number, event in self.rows:
            if event.charged == "controller":
                continue
            if event.attempt not in self.due or event.attempt in charged:
                again = "a second time" if event.attempt in charged else "though no fault hit it"
                message = f"attempt {event.attempt} was charged to {SETTINGS[event.charged]}"
                yield Anomaly(message=f"{message} {again}: {_cause(event)}", events=(number,))
            charged.add(event.attempt)

    def missing(self) -> Iterator[Anomaly]:
        """Give the faults that were charged to nothing, once it is too late for it."""
        if not self.trial.run.ending.is_over:
            return
        charged = {event.attempt for _, event in self.rows}
        for attempt in sorted(set(self.due) - charged - self._resized()):
            events = tuple(n for s in self.trial.hits[attempt] for n in s.events)
            message = f"a fault ended attempt {attempt}, and Ray charged it to no budget"
            yield Anomaly(message=message, events=events)

    def _resized(self) -> set[int]:
        """Give the attempts that Ray ended itself, to go on with another number of workers.

        An elastic job's policy may find the room gone before anybody has heard
        that a worker is: it resizes, and that costs no budget (Ray 2.60).
        """
        resizings = [n for n, e in self.trial.history.of(ControllerState) if e.state == "RESIZING"]
        pairs = pairwise(self.trial.run.attempts)
        return {
            attempt.index
            for attempt, after in pairs
            if not attempt.decisions
            and after.size != attempt.size
            and any((attempt.opened or 0) < n < (after.opened or 0) for n in resizings)
        }

    def differing(self, budget: str, due: int) -> Iterator[Anomaly]:
        """Compare one budget's total with what the plan expects."""
        found = self.to(budget)
        is_short = self.trial.run.ending.is_over and self.trial.excuse is None
        if len(found) > due or (len(found) < due and is_short):
            events = tuple(number for number, _ in found)
            yield Anomaly(message=self._count(budget, due), events=events)

    def excused(self, budget: str, due: int) -> Iterator[str]:
        """Give a charge that is missing where the fault is that it was expected for."""
        if len(self.to(budget)) < due and self.trial.excuse is not None:
            yield f"{self._count(budget, due)}, but {self.trial.excuse}"

    def _count(self, budget: str, due: int) -> str:
        count = plural(len(self.to(budget)), "charge")
        return f"{count} to {SETTINGS[budget]}, {due} expected"


def _cause(event: FailureDecided) -> str:
    """Give the first rank's error: Ray's own name for it says only that a group has failed."""
    return next((event.errors[rank] for rank in sorted(event.errors)), event.error)
