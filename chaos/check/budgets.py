"""The retry budgets in force when Ray decided, and how much of each had been spent."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaos.check.trial import Trial
from chaos.model.event import FailureDecided, FitCalled

SETTINGS: Mapping[str, str] = {
    "failures": "max_failures",
    "preemptions": "max_preemption_failures",
}
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Charge:
    """One decision: the how-many-th of its budget it was, and the limit, None if not known."""

    number: int
    event: FailureDecided
    spent: int
    limit: int | None

    @property
    def setting(self) -> str:
        """The name of the budget's setting."""
        return SETTINGS[self.event.charged]

    @property
    def is_beyond(self) -> bool:
        """Whether it was more than the budget allows."""
        return self.limit is not None and UNLIMITED != self.limit < self.spent

    @property
    def is_overrun(self) -> bool:
        """Whether Ray tried again all the same."""
        return self.is_beyond and self.event.decision == "RETRY"

    @property
    def was_given_up(self) -> bool:
        """Whether Ray gave up though the budget had a retry left."""
        return self.limit is not None and not self.is_beyond and self.event.decision == "RAISE"


def charges(trial: Trial) -> Iterator[Charge]:
    """Give what was charged to the two budgets, in order.

    The settings that were in force stand in `fit()`'s call: the script's own,
    or what the plan put in their place. Ray 2.60 counts in its controller's
    memory, so that a driver which is started again counts anew.
    """
    calls = list(trial.history.of(FitCalled))
    spent: Counter[str] = Counter()
    limits = _limits(trial, None)
    for number, event in trial.history.of(FailureDecided):
        while calls and calls[0][0] < number:
            spent.clear()
            limits = _limits(trial, calls.pop(0)[1])
        if event.decision != "NOOP" and event.charged in SETTINGS:
            spent[event.charged] += 1
            yield Charge(number, event, spent[event.charged], limits[event.charged])


def _limits(trial: Trial, called: FitCalled | None) -> Mapping[str, int | None]:
    planned = trial.plan.job.failure
    known = {} if planned is None else planned.model_dump()
    known |= {} if called is None else called.settings
    found = {budget: known.get(setting) for budget, setting in SETTINGS.items()}
    return {budget: n if isinstance(n, int) else None for budget, n in found.items()}
