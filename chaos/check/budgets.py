"""Checks of retries: the charges to each retry budget, and the number of attempts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.injections import Budget, Injection
from chaos.check.kinds.base import Facts
from chaos.check.kinds.budgets import (
    ChargedTwice,
    ChargeWithoutFault,
    ControllerFailed,
    FaultNotCharged,
    GaveUpEarly,
    RetryLimitExceeded,
    TooFewAttempts,
    TooManyAttempts,
    WrongBudgetCharged,
    WrongChargeCount,
    WrongWorkerCount,
)
from chaos.check.prose.budgets import describe_attempt_count
from chaos.check.result import builtin_check, conclude, inconclusive
from chaos.check.time_limits import find_recovery_limit
from chaos.model.causes import find_causes
from chaos.model.event import ControllerState, FailureDecided, FitCalled
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Attempt
from chaos.wording import plural

# -- retry-budget ----------------------------------------------------------------------------------


RETRY_BUDGET = "retry-budget"


START_TIMEOUT = "WorkerGroupStartupTimeoutError"
START_FAILED = "WorkerGroupStartupFailedError"


@builtin_check(RETRY_BUDGET, asks="Did Ray charge every failure to the right retry budget?")
def check_retry_budget(analysis: RunAnalysis) -> CheckResult:
    """Require one charge for each attempt that a fault ended, to the budget of that fault.

    A killed worker or node is a failure, a preempted node a preemption; where both hit one attempt,
    the preemption wins (Ray 2.60). Nodes that join or stay away, and a driver that is started
    again, cost nothing. Each budget is kept: no retry beyond it (ray-project/ray#29171), and no end
    of the run below it. Inconclusive where the limit in force is not known. To torchrun every fault
    is a failure, charged by each agent to its own budget. Where nodes wait to join, torchrun may
    end an attempt without a charge.
    """
    charge_table = _ChargeTable(analysis)
    expected = analysis.plan.expect.charges
    anomalies = [*charge_table.find_controller_failures(), *_find_broken_limits(analysis)]
    doubts = [*_describe_unknown_limits(analysis)]
    if expected is None:
        anomalies += charge_table.find_misplaced_charges()
        in_doubt = _describe_doubtful_faults(analysis)
        doubts += in_doubt
        if not in_doubt:
            anomalies += [
                *charge_table.find_surplus_charges(),
                *charge_table.find_missing_charges(),
            ]
    else:
        for budget in SETTINGS:
            difference = charge_table.compare_total(budget, getattr(expected, budget))
            anomalies += [difference] if isinstance(difference, Anomaly) else []
            doubts += [difference] if isinstance(difference, str) else []
    if not analysis.run.ending.has_run_end:
        doubts.append("the run was not seen to its end")
    if any(map(analysis.is_cut_short, charge_table.find_uncharged_attempts())):
        doubts.append("the run was ended by us, at its limit, before a failure was charged")
    counts = {
        budget: len(charge_table.select_charges(budget)) for budget in (*SETTINGS, "controller")
    }
    facts = analysis.plan.job.launcher_facts
    charge_texts = [
        plural(counts[budget], budget.removesuffix("s")) for budget in facts.retries.budgets
    ]
    return conclude(
        RETRY_BUDGET,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(analysis.run.attempts),
        summary=f"{' and '.join(charge_texts)} charged, as due",
        measures={f"charged_{budget}": count for budget, count in counts.items()},
    )


def _find_broken_limits(analysis: RunAnalysis) -> Iterator[Anomaly]:
    for charge in find_charges(analysis):
        if charge.limit is None:
            continue
        event, is_unlimited = charge.event, charge.limit == UNLIMITED
        is_exceeded = not is_unlimited and charge.limit < charge.spent_count
        if event.decision != ("RETRY" if is_exceeded else "RAISE"):
            continue
        budget: Budget = "preemptions" if event.charged == "preemptions" else "failures"
        facts: Facts = RetryLimitExceeded(
            event.attempt, budget, charge.spent_count, charge.setting, charge.limit
        )
        if not is_exceeded:
            facts = GaveUpEarly(
                event.attempt,
                budget,
                charge.spent_count,
                charge.setting,
                limit=None if is_unlimited else charge.limit,
                error=_find_root_error(analysis, event.attempt),
            )
        yield build_anomaly(facts, analysis.launcher_words, events=(charge.number,))


def _describe_unknown_limits(analysis: RunAnalysis) -> Iterator[str]:
    unknown_settings = {charge.setting for charge in find_charges(analysis) if charge.limit is None}
    for setting in sorted(unknown_settings):
        yield f"the script's own `{setting}` is not known, so neither is whether it was kept"


def _find_orphaned_decisions(analysis: RunAnalysis) -> Iterator[int]:
    """Yield the decisions that a controller made after its driver was killed.

    It may outlive its driver by a moment in which it sees its workers end. It goes as well, and the
    driver that is started again counts anew (Ray 2.60).
    """
    history = analysis.history
    group_numbers = {attempt.index: attempt.group_started for attempt in analysis.run.attempts}
    driver_kills = (s for s in analysis.injections if s.op.fault.ends_driver)
    for kill_number, kill_event in (
        invocation for injection in driver_kills for invocation in injection.invocations[:1]
    ):
        group_number = group_numbers.get(kill_event.attempt)
        for number, event in history.select_events(FailureDecided):
            is_same_controller = (
                group_number is not None and history[number].source == history[group_number].source
            )
            if number > kill_number and event.attempt == kill_event.attempt and is_same_controller:
                yield number


class _ChargeTable:
    """The decisions of Ray's controller that cost a retry, compared with the faults."""

    def __init__(self, analysis: RunAnalysis) -> None:
        self.analysis = analysis
        self.settings = analysis.plan.job.launcher_facts.retries.settings
        orphaned_decisions = set(_find_orphaned_decisions(analysis))
        self.decisions = [
            (number, event)
            for number, event in analysis.history.select_events(FailureDecided)
            if event.decision != "NOOP" and number not in orphaned_decisions
        ]
        # One charge per attempt, however many faults hit it: Ray decides once on a group that is
        # lost. If one of them was announced, the decision may be by that one.
        budgets = {
            a: {self._select_budget(s) for s in hits} - {None} for a, hits in analysis.hits.items()
        }
        self.expected_budgets: dict[int, Budget] = {
            attempt: "preemptions" if "preemptions" in attempt_budgets else "failures"
            for attempt, attempt_budgets in budgets.items()
            if attempt_budgets
        }

    def select_charges(self, budget: str) -> list[tuple[int, FailureDecided]]:
        """Return the decisions charged to one budget, one for all of torchrun's agents."""
        # Each of torchrun's agents decides on the same round and spends a restart of its own; of
        # Ray every decision is a charge, also two in one attempt, which is a finding
        # (`find_surplus_charges`).
        unique_charges: dict[tuple[int, str | None], tuple[int, FailureDecided]] = {}
        for number, event in self.decisions:
            if event.charged == budget:
                has_agent = event.node_id is not None
                unique_charges.setdefault(
                    (event.attempt if has_agent else -number, None), (number, event)
                )
        return [*unique_charges.values()]

    def find_controller_failures(self) -> Iterator[Anomaly]:
        """Yield the failures of Ray's controller that no fault explains."""
        for number, event in self.select_charges("controller"):
            if not self.analysis.has_expected_error and not self._is_failed_startup(event):
                facts = ControllerFailed(event.attempt, event.error)
                yield build_anomaly(facts, self.analysis.launcher_words, events=(number,))

    def _is_failed_startup(self, event: FailureDecided) -> bool:
        """Return whether a fault explains that a group did not come up, which costs no budget.

        Ray 2.60 asks for as many workers as before until it knows of the loss of a node, so that
        the start times out; or a fault took a worker while its group was still being started.
        """
        hits = self.analysis.hits
        has_lost_nodes = any(
            injection.op.fault.lost_node_count
            for attempt, injections in hits.items()
            for injection in injections
            if attempt <= event.attempt
        )
        has_timed_out = has_lost_nodes and START_TIMEOUT in event.error
        was_injected = event.attempt in hits and START_FAILED in event.error
        return event.decision == "RETRY" and (has_timed_out or was_injected)

    def find_misplaced_charges(self) -> Iterator[Anomaly]:
        """Yield the charges to the wrong one of the two budgets."""
        for number, event in self.decisions:
            expected_budget = self.expected_budgets.get(event.attempt)
            if expected_budget is None or event.charged in (expected_budget, "controller"):
                continue
            if event.charged == "preemptions" and self._has_announced_loss(event.attempt):
                continue
            facts = WrongBudgetCharged(
                event.attempt,
                expected_budget,
                self.settings[expected_budget],
                charged_setting=self.settings[event.charged],
                error=event.error,
            )
            yield build_anomaly(facts, self.analysis.launcher_words, events=(number,))

    def _select_budget(self, injection: Injection) -> Budget | None:
        # With its one node an agent of torchrun's is gone, which alone counts its restarts.
        facts = self.analysis.plan.job.launcher_facts
        is_agent_count = facts.retries.counted_by == "each agent" and facts.nodes.restarts_elsewhere
        return None if is_agent_count and injection.op.fault.lost_node_count else injection.budget

    def _has_announced_loss(self, attempt: int) -> bool:
        """Return whether a node was lost while a notice was in force: to Ray it was preempted."""
        announced_nodes = {
            (injection.invocations[0][1].attempt, injection.invocations[0][1].node_id)
            for injection in self.analysis.injections
            if injection.is_preemption and injection.invocations
        }
        return any(
            (attempt, injection.invocations[0][1].node_id) in announced_nodes
            for injection in self.analysis.hits.get(attempt, ())
            if injection.op.fault.lost_node_count and not injection.is_preemption
        )

    def find_surplus_charges(self) -> Iterator[Anomaly]:
        """Yield the charges without a fault, and second charges for one fault."""
        charge_keys: set[tuple[int, str | None]] = set()
        for number, event in self.decisions:
            charge_key = (
                event.attempt,
                event.node_id,
            )  # each agent of torchrun's charges its own budget
            if event.charged == "controller" or event.attempt in self.analysis.join_attempts:
                continue
            if event.attempt not in self.expected_budgets or charge_key in charge_keys:
                facts_type = ChargedTwice if charge_key in charge_keys else ChargeWithoutFault
                facts = facts_type(
                    event.attempt,
                    self._find_setting(event),
                    _find_root_error(self.analysis, event.attempt),
                )
                yield build_anomaly(facts, self.analysis.launcher_words, events=(number,))
            charge_keys.add(charge_key)

    def _find_setting(self, event: FailureDecided) -> str | None:
        """Return the setting that limits a budget; None of a command, whose ends chaos counts."""
        if self.analysis.plan.job.launcher_facts.retries.counted_by == "chaos":
            return None
        return self.settings[event.charged]

    def find_missing_charges(self) -> Iterator[Anomaly]:
        """Yield the faults that were charged to no budget, once the run is over by itself."""
        if (
            not self.analysis.run.ending.has_run_end
            or self.analysis.run.ending.deadline is not None
        ):
            return
        for attempt_index in (attempt_row.index for attempt_row in self.find_uncharged_attempts()):
            events = tuple(n for s in self.analysis.hits[attempt_index] for n in s.events)
            yield build_anomaly(
                FaultNotCharged(attempt_index), self.analysis.launcher_words, events=events
            )

    def find_uncharged_attempts(self) -> list[Attempt]:
        """Return the attempts that a fault ended and that lack a charge."""
        charged_attempts = {event.attempt for _, event in self.decisions}
        missing_attempts = (
            set(self.expected_budgets) - charged_attempts - self._find_exempt_attempts()
        )
        return [
            attempt for attempt in self.analysis.run.attempts if attempt.index in missing_attempts
        ]

    def _find_exempt_attempts(self) -> set[int]:
        """Return the attempts that may end without a charge."""
        attempts, fit_error = self.analysis.run.attempts, self.analysis.run.ending.fit_error
        # An agent of torchrun's that has lost the rendezvous, or waits in vain, raises at once.
        is_agent_failure = (
            fit_error is not None
            and LAUNCHER_FACTS[fit_error[1].launcher].retries.counted_by == "each agent"
        )
        abandoned_attempts = {attempts[-1].index} if is_agent_failure and attempts else set()
        return self._find_resized_attempts() | self.analysis.join_attempts | abandoned_attempts

    def _find_resized_attempts(self) -> set[int]:
        """Return the attempts that Ray ended itself, to continue with another number of workers.

        The policy of an elastic job may find a node gone before the loss of its worker is known. It
        then resizes, which costs no budget (Ray 2.60).
        """
        states = self.analysis.history.select_events(ControllerState)
        resizings = [number for number, event in states if event.state == "RESIZING"]
        return {
            attempt.index
            for attempt, next_attempt in pairwise(self.analysis.run.attempts)
            if not attempt.decisions and next_attempt.worker_count != attempt.worker_count
            if any(
                (attempt.group_started or 0) < n < (next_attempt.group_started or 0)
                for n in resizings
            )
        }

    def compare_total(self, budget: str, expected_count: int) -> Anomaly | str | None:
        """Return the difference of one budget's total from the total that the plan expects.

        As a doubt where the fault that a missing charge belongs to failed, or the run was cut off.
        """
        budget_charges = self.select_charges(budget)
        count = len(budget_charges)
        anomaly = build_anomaly(
            WrongChargeCount(self.settings[budget], count, expected_count),
            self.analysis.launcher_words,
            events=(number for number, _ in budget_charges),
        )
        if count < expected_count and self.analysis.fault_failure is not None:
            return f"{anomaly.message}, but {self.analysis.fault_failure}"
        if count < expected_count and self.analysis.run.ending.deadline is not None:
            return f"{anomaly.message}, but the run was ended by us, at its limit"
        if count > expected_count or (
            count < expected_count and self.analysis.run.ending.has_run_end
        ):
            return anomaly
        return None


def _find_root_error(analysis: RunAnalysis, attempt: int) -> str:
    """Return the first error of an attempt that no other one caused, on any node."""
    decisions = [
        e for _, e in analysis.history.select_events(FailureDecided) if e.attempt == attempt
    ]
    rank_errors = find_causes({rank: error for e in decisions for rank, error in e.errors.items()})
    # Ray's own error only names the failure of a group.
    return next(iter(rank_errors.values()), decisions[0].error)


# -- attempts --------------------------------------------------------------------------------------


ATTEMPTS = "attempts"


@builtin_check(
    ATTEMPTS,
    asks="Were there as many attempts as faults call for, each with as many workers as it "
    "may have?",
)
def check_attempts(analysis: RunAnalysis) -> CheckResult:
    """Require one attempt more than there are attempts that a fault ended.

    Where `fit()` is expected to raise, the last of these has no successor. An attempt too many is a
    failure that was not injected (Ray 2.60: a worker group that does not come up opens another). If
    a run is ended at its limit within a recovery, it is not known whether another attempt was to
    follow. Each attempt has the workers that `fit()` asked for. Only an elastic job goes on with
    fewer, down to the number that it states.
    """
    started_attempts = [
        attempt for attempt in analysis.run.attempts if attempt.group_started is not None
    ]
    if not started_attempts:
        return inconclusive(ATTEMPTS, "no worker group was seen")
    expected_count = _count_expected_attempts(analysis)
    doubts = (
        [] if analysis.plan.expect.attempts is not None else _describe_doubtful_faults(analysis)
    )
    anomalies = list[Anomaly]()
    if len(started_attempts) > expected_count and not doubts:
        anomalies += _find_surplus_attempts(analysis, started_attempts, expected_count)
    anomalies += _find_wrong_sizes(analysis, started_attempts)
    if not analysis.run.ending.has_run_end:
        doubts.append("the run was not seen to its end")
    if len(started_attempts) < expected_count:
        doubts += _describe_excuses(
            analysis,
            describe_attempt_count(len(started_attempts), expected_count),
            last_attempt=started_attempts[-1]
            if len(started_attempts) == expected_count - 1
            else None,
        )
        anomalies += (
            () if doubts else [_build_shortage_anomaly(analysis, started_attempts, expected_count)]
        )
    return conclude(
        ATTEMPTS,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(started_attempts),
        summary=f"{plural(len(started_attempts), 'attempt')}, as due",
        measures={"attempts": len(started_attempts)},
    )


def _count_expected_attempts(analysis: RunAnalysis) -> int:
    if analysis.plan.expect.attempts is not None:
        return analysis.plan.expect.attempts
    join_count = len(analysis.join_attempts - set(analysis.hits))
    has_raised = analysis.has_expected_error and bool(analysis.hits)
    return 1 + len(analysis.hits) + join_count - has_raised


def _describe_doubtful_faults(analysis: RunAnalysis) -> list[str]:
    return [f"what {s.op} came to is not known" for s in analysis.injections if s.is_in_doubt]


def _describe_excuses(
    analysis: RunAnalysis, difference_text: str, *, last_attempt: Attempt | None
) -> Iterator[str]:
    """Yield why attempts may be missing; `last_attempt`: the one that alone has no successor."""
    if analysis.plan.expect.attempts is not None and analysis.fault_failure is not None:
        yield f"{difference_text}, but {analysis.fault_failure}"
    if analysis.rendezvous_failure is not None:
        yield f"{difference_text}: {analysis.rendezvous_failure}"
    if last_attempt is not None and (cutoff := _describe_cutoff(analysis, last_attempt)):
        yield f"{difference_text}: {cutoff}"


def _describe_cutoff(analysis: RunAnalysis, last_attempt: Attempt) -> str:
    """Return in words that the run was ended at its limit within a recovery; else an empty text."""
    deadline, hits = analysis.run.ending.deadline, analysis.hits.get(last_attempt.index, ())
    fault_times = [
        fault_time
        for injection in hits
        if (fault_time := injection.hit_times_by_attempt[last_attempt.index]) is not None
    ]
    if deadline is None or not fault_times:
        return ""
    waited_s = (analysis.history.time_ns(deadline[0]) - max(fault_times)) / 1e9
    if waited_s > find_recovery_limit(analysis).seconds:
        return ""
    return f"the run was ended at its limit {waited_s:.0f} s after the last fault"


def _find_surplus_attempts(
    analysis: RunAnalysis, started_attempts: list[Attempt], expected_count: int
) -> Iterator[Anomaly]:
    surplus_pairs = [
        (attempt, previous_attempt)
        for previous_attempt, attempt in pairwise(started_attempts)
        if previous_attempt.index not in analysis.hits
        and previous_attempt.index not in analysis.join_attempts
    ]
    for attempt, previous_attempt in surplus_pairs:
        assert attempt.group_started is not None
        facts = TooManyAttempts(
            len(started_attempts),
            expected_count,
            attempt.index,
            previous_attempt=previous_attempt.index,
            error=_find_root_error(analysis, previous_attempt.index)
            if previous_attempt.decisions
            else None,
        )
        yield build_anomaly(facts, analysis.launcher_words, events=(attempt.group_started,))
    if not surplus_pairs:
        yield build_anomaly(
            TooManyAttempts(len(started_attempts), expected_count),
            analysis.launcher_words,
            events=(
                surplus_attempt.group_started or 0
                for surplus_attempt in started_attempts[expected_count:]
            ),
        )


def _find_wrong_sizes(analysis: RunAnalysis, started_attempts: list[Attempt]) -> Iterator[Anomaly]:
    fewest_workers, most_workers = _find_worker_range(analysis)
    for attempt in started_attempts:
        if (
            attempt.worker_locations
            and not fewest_workers <= len(attempt.worker_locations) <= most_workers
        ):
            facts = WrongWorkerCount(
                attempt.index, len(attempt.worker_locations), fewest_workers, most_workers
            )
            yield build_anomaly(
                facts, analysis.launcher_words, events=(attempt.group_started or 0,)
            )


def _find_worker_range(analysis: RunAnalysis) -> tuple[int, int]:
    """Return the fewest and the most workers that `fit()` was called with, or else the plan's."""
    job = analysis.plan.job
    fit_call = next((event for _, event in analysis.history.select_events(FitCalled)), None)
    match fit_call.settings.get("num_workers") if fit_call is not None else None:
        case int(count):
            return count, count
        case [int(least), int(most)]:
            return least, most
        case _ if analysis.plan.follows_script:  # it is what the script has
            first_size = analysis.run.attempts[0].worker_count
            return first_size, first_size
        case _:
            return job.min_workers or job.workers, job.workers


def _build_shortage_anomaly(
    analysis: RunAnalysis, started_attempts: list[Attempt], expected_count: int
) -> Anomaly:
    count = len(started_attempts)
    attempt_indexes = {attempt.index for attempt in started_attempts}
    for index, hits in sorted(analysis.hits.items()):
        if index + 1 not in attempt_indexes:
            events = [number for injection in hits for number in injection.events]
            facts = TooFewAttempts(count, expected_count, index)
            return build_anomaly(facts, analysis.launcher_words, events=events)
    return build_anomaly(TooFewAttempts(count, expected_count), analysis.launcher_words, events=())


# -- charges ---------------------------------------------------------------------------------------


# By budget, the field of the plan's `FailureBudget`, which a launcher's call is recorded with too.
SETTINGS = {"failures": "max_failures", "preemptions": "max_preemption_failures"}
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Charge:
    """One decision, and its place among the charges to its budget."""

    number: int
    event: FailureDecided
    spent_count: int
    #: None if unknown
    limit: int | None
    #: the name of the setting that sets the limit
    setting: str


def find_charges(analysis: RunAnalysis) -> Iterator[Charge]:
    """Yield the charges to the two budgets, in order.

    The settings in force stand in the call of `fit()`: the script's own, or the plan's in their
    place. Ray 2.60 counts in its controller's memory, so a driver that is started again counts
    anew. Each agent of torchrun's counts for itself, and one that joins later from 0 (torch 2.13).
    Chaos counts over all starts of a command.
    """
    fit_calls = list(analysis.history.select_events(FitCalled))
    spent_counts: Counter[tuple[str, str | None]] = Counter()
    limits = _find_budget_limits(analysis, None)
    is_chaos_count = analysis.plan.job.launcher_facts.retries.counted_by == "chaos"
    for number, event in analysis.history.select_events(FailureDecided):
        while fit_calls and fit_calls[0][0] < number:
            if not is_chaos_count:
                spent_counts.clear()
            limits = _find_budget_limits(analysis, fit_calls.pop(0)[1])
        if event.decision != "NOOP" and event.charged in SETTINGS:
            charge_key = event.charged, event.node_id
            spent_counts[charge_key] += 1
            setting = analysis.plan.job.launcher_facts.retries.settings[event.charged]
            yield Charge(number, event, spent_counts[charge_key], limits[event.charged], setting)


def _find_budget_limits(
    analysis: RunAnalysis, fit_call: FitCalled | None
) -> Mapping[str, int | None]:
    failure_plan = analysis.plan.job.failure
    settings = {} if failure_plan is None else failure_plan.model_dump()
    settings |= {} if fit_call is None else fit_call.settings
    limits = {budget: settings.get(setting) for budget, setting in SETTINGS.items()}
    return {budget: limit if isinstance(limit, int) else None for budget, limit in limits.items()}
