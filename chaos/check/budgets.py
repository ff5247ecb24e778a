"""Checks of retries: the charges to each retry budget, and the number of attempts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Attempt
from chaos.check.injections import Budget, Injection
from chaos.check.result import conclude, inconclusive, own_check
from chaos.check.time_limits import for_recovery
from chaos.model.causes import causes
from chaos.model.event import ControllerState, FailureDecided, FitCalled
from chaos.model.launcher import FACTS
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

# -- retry-budget ----------------------------------------------------------------------------------


RETRY_BUDGET = "retry-budget"


START_TIMEOUT = "WorkerGroupStartupTimeoutError"
START_FAILED = "WorkerGroupStartupFailedError"


@own_check(RETRY_BUDGET, asks="Did Ray charge every failure to the right retry budget?")
def check_retry_budget(analysis: RunAnalysis) -> CheckResult:
    """Require one charge for each attempt that a fault ended, to the budget of that fault.

    The promise of the retry budget. A killed worker or node is a failure, a preempted node a
    preemption. Where both hit one attempt the preemption wins (Ray 2.60's policy: any preempted
    actor makes it one). One budget for both was ray-project/ray PR #41285. Nodes that join or stay
    away, and a driver that is started again, cost nothing. Each budget is kept: no retry beyond it
    (ray-project/ray#29171), and no end of the run below it. Inconclusive where the limit in force
    is not known. To torchrun every fault is a failure, which each agent charges to a budget of its
    own; where nodes wait to join, it may end an attempt without a charge.
    """
    made = _Charges(analysis)
    expected = analysis.plan.expect.charges
    anomalies = [*made.by_itself(), *_broken_limits(analysis)]
    doubts = [*_unknown_limits(analysis)]
    if expected is None:
        anomalies += made.misplaced()
        in_doubt = _in_doubt(analysis)
        doubts += in_doubt
        if not in_doubt:
            anomalies += [*made.surplus(), *made.missing()]
    else:
        for budget in SETTINGS:
            found = made.differing(budget, getattr(expected, budget))
            anomalies += [found] if isinstance(found, Anomaly) else []
            doubts += [found] if isinstance(found, str) else []
    if not analysis.run.ending.is_over:
        doubts.append("the run was not seen to its end")
    if any(map(analysis.is_cut_short, made.uncharged_attempts())):
        doubts.append("the run was ended by us, at its limit, before a failure was charged")
    counts = {budget: len(made.to(budget)) for budget in (*SETTINGS, "controller")}
    facts = analysis.plan.job.facts
    charged_words = [plural(counts[budget], budget.removesuffix("s")) for budget in facts.budgets]
    return conclude(
        RETRY_BUDGET,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(analysis.run.attempts),
        summary=f"{' and '.join(charged_words)} charged, as due",
        measures={f"charged_{budget}": count for budget, count in counts.items()},
    )


def _broken_limits(analysis: RunAnalysis) -> Iterator[Anomaly]:
    for charge in charges(analysis):
        if charge.limit is None:
            continue
        event, is_open = charge.event, charge.limit == UNLIMITED
        is_beyond = not is_open and charge.limit < charge.spent
        if event.decision != ("RETRY" if is_beyond else "RAISE"):
            continue
        limit = "is without limit" if is_open else f"allows {charge.limit}"
        did, why = "tried again", ""
        if not is_beyond:
            did, why = "gave up", f": {_first_error(analysis, event.attempt)}"
        yield Anomaly(
            message=f"{plural(charge.spent, event.charged.removesuffix('s'))} charged, "
            f"`{charge.setting}` {limit}, and {analysis.terms.name} {did} after attempt "
            f"{event.attempt}{why}",
            events=(charge.number,),
        )


def _unknown_limits(analysis: RunAnalysis) -> Iterator[str]:
    unknown = {charge.setting for charge in charges(analysis) if charge.limit is None}
    for setting in sorted(unknown):
        yield f"the script's own `{setting}` is not known, so neither is whether it was kept"


def _orphaned(analysis: RunAnalysis) -> Iterator[int]:
    """Yield the decisions that a controller made after its driver was killed.

    It may outlive its driver by a moment in which it sees its workers end. It goes as well, and the
    driver that is started again counts anew (Ray 2.60).
    """
    history = analysis.history
    started = {attempt.index: attempt.group_started for attempt in analysis.run.attempts}
    killers = (s for s in analysis.injections if s.op.fault.ends_driver)
    for since, killed in (row for injection in killers for row in injection.invoked[:1]):
        own = started.get(killed.attempt)
        for number, event in history.of(FailureDecided):
            is_own = own is not None and history[number].source == history[own].source
            if number > since and event.attempt == killed.attempt and is_own:
                yield number


class _Charges:
    """The decisions of Ray's controller that cost a retry, compared with the faults."""

    def __init__(self, analysis: RunAnalysis) -> None:
        self.analysis, self.terms = analysis, analysis.terms
        self.settings = analysis.plan.job.facts.settings
        orphaned = set(_orphaned(analysis))
        self.rows = [
            (number, event)
            for number, event in analysis.history.of(FailureDecided)
            if event.decision != "NOOP" and number not in orphaned
        ]
        # One charge per attempt, however many faults hit it: Ray decides once on a group that is
        # lost. If one of them was announced, the decision may be by that one.
        budgets = {a: {self._budget(s) for s in hits} - {None} for a, hits in analysis.hits.items()}
        self.due = {
            attempt: "preemptions" if "preemptions" in of else "failures"
            for attempt, of in budgets.items()
            if of
        }

    def to(self, budget: str) -> list[tuple[int, FailureDecided]]:
        """Return the decisions charged to one budget, one for all of torchrun's agents."""
        # Each of torchrun's agents decides on the same round and spends a restart of its own; of
        # Ray every decision is a charge, also two in one attempt, which is a finding (`surplus`).
        found: dict[tuple[int, str | None], tuple[int, FailureDecided]] = {}
        for number, event in self.rows:
            if event.charged == budget:
                is_one = event.node_id is not None
                found.setdefault((event.attempt if is_one else -number, None), (number, event))
        return [*found.values()]

    def by_itself(self) -> Iterator[Anomaly]:
        """Yield the failures of Ray's controller that no fault explains."""
        for number, event in self.to("controller"):
            if not self.analysis.error_was_expected and not self._had_no_group(event):
                message = f"{self.terms.controller} itself failed in attempt {event.attempt}"
                yield Anomaly(message=f"{message}: {event.error}", events=(number,))

    def _had_no_group(self, event: FailureDecided) -> bool:
        """Return whether a fault explains that a group did not come up, which costs no budget.

        Ray 2.60 asks for as many workers as before until it knows of the loss of a node, so that
        the start times out; or a fault took a worker while its group was still being started.
        """
        hits = self.analysis.hits
        lost_nodes = any(
            injection.op.fault.nodes_lost
            for attempt, of in hits.items()
            for injection in of
            if attempt <= event.attempt
        )
        timed_out = lost_nodes and START_TIMEOUT in event.error
        was_struck = event.attempt in hits and START_FAILED in event.error
        return event.decision == "RETRY" and (timed_out or was_struck)

    def misplaced(self) -> Iterator[Anomaly]:
        """Yield the charges to the wrong one of the two budgets."""
        for number, event in self.rows:
            due = self.due.get(event.attempt)
            if due is None or event.charged in (due, "controller"):
                continue
            if event.charged == "preemptions" and self._lost_under_notice(event.attempt):
                continue
            what = "a preemption" if due == "preemptions" else "a failure"
            yield Anomaly(
                message=f"attempt {event.attempt} ended by {what}, and {self.terms.name} charged "
                f"it to {self.settings[event.charged]} instead of "
                f"{self.settings[due]}: {event.error}",
                events=(number,),
            )

    def _budget(self, injection: Injection) -> Budget | None:
        # With its one node an agent of torchrun's is gone, which alone counts its restarts.
        facts = self.analysis.plan.job.facts
        counts_there = facts.counted_by == "each agent" and facts.restarts_elsewhere
        return None if counts_there and injection.op.fault.nodes_lost else injection.budget

    def _lost_under_notice(self, attempt: int) -> bool:
        """Return whether a node was lost while a notice was in force: to Ray it was preempted."""
        announced = {
            (injection.invoked[0][1].attempt, injection.invoked[0][1].node_id)
            for injection in self.analysis.injections
            if injection.is_preemption and injection.invoked
        }
        return any(
            (attempt, injection.invoked[0][1].node_id) in announced
            for injection in self.analysis.hits.get(attempt, ())
            if injection.op.fault.nodes_lost and not injection.is_preemption
        )

    def surplus(self) -> Iterator[Anomaly]:
        """Yield the charges without a fault, and second charges for one fault."""
        charged: set[tuple[int, str | None]] = set()
        for number, event in self.rows:
            mine = event.attempt, event.node_id  # each agent of torchrun's charges its own budget
            if event.charged == "controller" or event.attempt in self.analysis.joined:
                continue
            if event.attempt not in self.due or mine in charged:
                again = "a second time" if mine in charged else "though no fault hit it"
                message = f"attempt {event.attempt} {self._described(event)}"
                why = _first_error(self.analysis, event.attempt)
                yield Anomaly(message=f"{message} {again}: {why}", events=(number,))
            charged.add(mine)

    def _described(self, event: FailureDecided) -> str:
        """Return what became of an attempt: a command has no budget, and chaos counts its ends."""
        if self.analysis.plan.job.facts.counted_by == "chaos":
            return "of the command ended"
        return f"was charged to {self.settings[event.charged]}"

    def missing(self) -> Iterator[Anomaly]:
        """Yield the faults that were charged to no budget, once the run is over by itself."""
        if not self.analysis.run.ending.is_over or self.analysis.run.ending.deadline is not None:
            return
        for attempt in (each.index for each in self.uncharged_attempts()):
            events = tuple(n for s in self.analysis.hits[attempt] for n in s.events)
            message = (
                f"a fault ended attempt {attempt}, and {self.terms.name} charged it to no budget"
            )
            yield Anomaly(message=message, events=events)

    def uncharged_attempts(self) -> list[Attempt]:
        """Return the attempts that a fault ended and that lack a charge."""
        charged = {event.attempt for _, event in self.rows}
        lacking = set(self.due) - charged - self._uncharged()
        return [attempt for attempt in self.analysis.run.attempts if attempt.index in lacking]

    def _uncharged(self) -> set[int]:
        """Return the attempts that may end without a charge."""
        attempts, raised = self.analysis.run.attempts, self.analysis.run.ending.raised
        # An agent of torchrun's that has lost the rendezvous, or waits in vain, raises at once.
        by_agent = raised is not None and FACTS[raised[1].launcher].counted_by == "each agent"
        given_up = {attempts[-1].index} if by_agent and attempts else set()
        return self._resized() | self.analysis.joined | given_up

    def _resized(self) -> set[int]:
        """Return the attempts that Ray ended itself, to continue with another number of workers.

        The policy of an elastic job may find a node gone before the loss of its worker is known. It
        then resizes, which costs no budget (Ray 2.60).
        """
        states = self.analysis.history.of(ControllerState)
        resizings = [number for number, e in states if e.state == "RESIZING"]
        return {
            one.index
            for one, after in pairwise(self.analysis.run.attempts)
            if not one.decisions and after.size != one.size
            if any((one.group_started or 0) < n < (after.group_started or 0) for n in resizings)
        }

    def differing(self, budget: str, due: int) -> Anomaly | str | None:
        """Return the difference of one budget's total from the total that the plan expects.

        As a doubt where the fault that a missing charge belongs to failed, or the run was cut off.
        """
        charged = self.to(budget)
        text = f"{plural(len(charged), 'charge')} to {self.settings[budget]}, {due} expected"
        if len(charged) < due and self.analysis.excuse is not None:
            return f"{text}, but {self.analysis.excuse}"
        if len(charged) < due and self.analysis.run.ending.deadline is not None:
            return f"{text}, but the run was ended by us, at its limit"
        if len(charged) > due or (len(charged) < due and self.analysis.run.ending.is_over):
            return Anomaly(message=text, events=tuple(number for number, _ in charged))
        return None


def _first_error(analysis: RunAnalysis, attempt: int) -> str:
    """Return the first error of an attempt that no other one caused, on any node."""
    decided = [e for _, e in analysis.history.of(FailureDecided) if e.attempt == attempt]
    of_ranks = causes({rank: error for e in decided for rank, error in e.errors.items()})
    # Ray's own error only names the failure of a group.
    return next(iter(of_ranks.values()), decided[0].error)


# -- attempts --------------------------------------------------------------------------------------


ATTEMPTS = "attempts"


@own_check(
    ATTEMPTS,
    asks="Were there as many attempts as faults call for, each with as many workers as it "
    "may have?",
)
def check_attempts(analysis: RunAnalysis) -> CheckResult:
    """Require one attempt more than there are attempts that a fault ended.

    Where `fit()` is expected to raise, the last of these has no successor. An attempt too many is a
    failure that was not injected (Ray 2.60: a worker group that does not come up opens another). A
    run that is ended at its limit may be within a recovery, so for as long as a recovery may take
    it is not known whether another attempt was to follow. Each attempt has the workers that `fit()`
    asked for. Only an elastic job continues with fewer, down to the number that it states (a rank
    that is missing makes every batch smaller, pytorch/torchtitan PR #4663).
    """
    started = [attempt for attempt in analysis.run.attempts if attempt.group_started is not None]
    if not started:
        return inconclusive(ATTEMPTS, "no worker group was seen")
    due = _due_attempts(analysis)
    head = f"{plural(len(started), 'attempt')} instead of {due}"
    doubts = [] if analysis.plan.expect.attempts is not None else _in_doubt(analysis)
    anomalies = list[Anomaly]()
    if len(started) > due and not doubts:
        anomalies += _too_many(analysis, head, started, due)
    anomalies += _wrong_sizes(analysis, started)
    if not analysis.run.ending.is_over:
        doubts.append("the run was not seen to its end")
    if len(started) < due:
        doubts += _excuses(analysis, head, last=started[-1] if len(started) == due - 1 else None)
        anomalies += () if doubts else [_too_few(analysis, head, started)]
    return conclude(
        ATTEMPTS,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(started),
        summary=f"{plural(len(started), 'attempt')}, as due",
        measures={"attempts": len(started)},
    )


def _due_attempts(analysis: RunAnalysis) -> int:
    if analysis.plan.expect.attempts is not None:
        return analysis.plan.expect.attempts
    by_itself = len(analysis.joined - set(analysis.hits))
    raised = analysis.error_was_expected and bool(analysis.hits)
    return 1 + len(analysis.hits) + by_itself - raised


def _in_doubt(analysis: RunAnalysis) -> list[str]:
    return [f"what {s.op} came to is not known" for s in analysis.injections if s.is_in_doubt]


def _excuses(analysis: RunAnalysis, head: str, *, last: Attempt | None) -> Iterator[str]:
    """Yield why attempts may be missing; `last`: the one that alone has no successor."""
    if analysis.plan.expect.attempts is not None and analysis.excuse is not None:
        yield f"{head}, but {analysis.excuse}"
    if analysis.unmet is not None:
        yield f"{head}: {analysis.unmet}"
    if last is not None and (cut := _cut_short(analysis, last)):
        yield f"{head}: {cut}"


def _cut_short(analysis: RunAnalysis, last: Attempt) -> str:
    """Return in words that the run was ended at its limit within a recovery; else an empty text."""
    deadline, hits = analysis.run.ending.deadline, analysis.hits.get(last.index, ())
    harmed = [at for injection in hits if (at := injection.hits[last.index]) is not None]
    if deadline is None or not harmed:
        return ""
    waited_s = (analysis.history.time_ns(deadline[0]) - max(harmed)) / 1e9
    if waited_s > for_recovery(analysis).seconds:
        return ""
    return f"the run was ended at its limit {waited_s:.0f} s after the last fault"


def _too_many(
    analysis: RunAnalysis, head: str, started: list[Attempt], due: int
) -> Iterator[Anomaly]:
    found = [
        (attempt, before)
        for before, attempt in pairwise(started)
        if before.index not in analysis.hits and before.index not in analysis.joined
    ]
    for attempt, before in found:
        assert attempt.group_started is not None
        why = f": {_first_error(analysis, before.index)}" if before.decisions else ""
        yield Anomaly(
            message=f"{head}: nothing was done to attempt {before.index}, and attempt "
            f"{attempt.index} followed it{why}",
            events=(attempt.group_started,),
        )
    if not found:
        yield Anomaly(message=head, events=tuple(a.group_started or 0 for a in started[due:]))


def _wrong_sizes(analysis: RunAnalysis, started: list[Attempt]) -> Iterator[Anomaly]:
    least, most = _asked_workers(analysis)
    asked = f"{most} were asked for, and the job does not say that it is elastic"
    if least < most:
        asked = f"from {least} to {most} were asked for"
    for attempt in started:
        if attempt.places and not least <= len(attempt.places) <= most:
            count = plural(len(attempt.places), "worker")
            message = f"attempt {attempt.index} had {count}; {asked}"
            yield Anomaly(message=message, events=(attempt.group_started or 0,))


def _asked_workers(analysis: RunAnalysis) -> tuple[int, int]:
    """Return the fewest and the most workers that `fit()` was called with, or else the plan's."""
    job = analysis.plan.job
    called = next((event for _, event in analysis.history.of(FitCalled)), None)
    match called.settings.get("num_workers") if called is not None else None:
        case int(count):
            return count, count
        case [int(least), int(most)]:
            return least, most
        case _ if analysis.plan.follows_script:  # it is what the script has
            first = analysis.run.attempts[0].size
            return first, first
        case _:
            return job.min_workers or job.workers, job.workers


def _too_few(analysis: RunAnalysis, head: str, started: list[Attempt]) -> Anomaly:
    indexes = {attempt.index for attempt in started}
    for index, hits in sorted(analysis.hits.items()):
        if index + 1 not in indexes:
            events = tuple(number for injection in hits for number in injection.events)
            message = f"{head}: a fault ended attempt {index}, and none followed it"
            return Anomaly(message=message, events=events)
    return Anomaly(message=head)


# -- charges ---------------------------------------------------------------------------------------


# By budget, the field of the plan's `FailureBudget`, which a launcher's call is recorded with too.
SETTINGS = {"failures": "max_failures", "preemptions": "max_preemption_failures"}
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Charge:
    """One decision, and its place among the charges to its budget."""

    number: int
    event: FailureDecided
    spent: int
    #: None if unknown
    limit: int | None
    #: the name of the setting that sets the limit
    setting: str


def charges(analysis: RunAnalysis) -> Iterator[Charge]:
    """Yield the charges to the two budgets, in order.

    The settings in force stand in the call of `fit()`: the script's own, or the plan's in their
    place. Ray 2.60 counts in its controller's memory, so a driver that is started again counts
    anew. Each agent of torchrun's counts for itself, and one that joins later from 0 (torch 2.13).
    Chaos counts over all starts of a command.
    """
    calls = list(analysis.history.of(FitCalled))
    spent: Counter[tuple[str, str | None]] = Counter()
    limits = _budget_limits(analysis, None)
    is_ours = analysis.plan.job.facts.counted_by == "chaos"
    for number, event in analysis.history.of(FailureDecided):
        while calls and calls[0][0] < number:
            if not is_ours:
                spent.clear()
            limits = _budget_limits(analysis, calls.pop(0)[1])
        if event.decision != "NOOP" and event.charged in SETTINGS:
            mine = event.charged, event.node_id
            spent[mine] += 1
            setting = analysis.plan.job.facts.settings[event.charged]
            yield Charge(number, event, spent[mine], limits[event.charged], setting)


def _budget_limits(analysis: RunAnalysis, called: FitCalled | None) -> Mapping[str, int | None]:
    planned = analysis.plan.job.failure
    known = {} if planned is None else planned.model_dump()
    known |= {} if called is None else called.settings
    found = {budget: known.get(setting) for budget, setting in SETTINGS.items()}
    return {budget: n if isinstance(n, int) else None for budget, n in found.items()}
