"""How long a job may stand still or take to start: as is stated, or as it does by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.check.pace import Pause, Where, pauses, start_s
from chaos.check.trial import Course, Trial

# From a fault to the next first step, where the plan states nothing.
RECOVERY_S = 120.0
# A struck run may be on a busier machine than its baseline was.
SLACK = 2


@dataclass(frozen=True)
class Allowance:
    """So many seconds; `own_s`: what the baseline took itself, where that is why."""

    seconds: float
    own_s: float | None = None

    @classmethod
    def of(cls, stated_s: float, own_s: float | None) -> "Allowance":
        """Give what is stated, or what the baseline does itself and as much again, if more."""
        if own_s is None or SLACK * own_s <= stated_s:
            return cls(stated_s)
        return cls(SLACK * own_s, own_s)

    def __str__(self) -> str:
        """Say it as the rest of a sentence."""
        if self.own_s is None:
            return f"{self.seconds:g} s are allowed"
        return f"{self.seconds:.0f} s are allowed, twice the {self.own_s:.0f} s of the baseline"


def for_recovery(trial: Trial) -> Allowance:
    """Give how long a recovery may take: a bound that the scenario states is kept as it is.

    Without one, a job that takes long to start, its baseline too, may do so again.
    """
    stated, reference = trial.plan.expect.recovery_s, trial.reference
    if stated is not None:
        return Allowance(stated.max)
    own_s = None if reference is None else start_s(reference.history, reference.attempts)
    return Allowance.of(RECOVERY_S, own_s)


@dataclass(frozen=True)
class Patience:
    """How long an attempt may stand still. `own_s`: the baseline's longest pauses, by where."""

    stated_s: float
    own_s: Mapping[Where, float]
    sizes: Mapping[int, float]

    @classmethod
    def of(cls, trial: Trial) -> "Patience":
        """Learn it from the plan and the baseline."""
        stated = trial.plan.expect.recovery_s
        recovery_s = RECOVERY_S if stated is None else stated.max
        return cls(
            stated_s=max(recovery_s, trial.plan.limits.gate_s),
            own_s={} if trial.reference is None else _longest(trial.reference),
            sizes=_sizes(trial),
        )

    def with_(self, pause: Pause) -> Allowance:
        """Give what is allowed to a pause, by the baseline's of its kind."""
        own_s = self.own_s.get(pause.where)
        # What a fault left to be found out, and no attempt follows, may be in the last pause.
        stated_s = max(self.stated_s, RECOVERY_S) if pause.where == "at the end" else self.stated_s
        return Allowance.of(stated_s, own_s and own_s * self._by(pause.attempt))

    def at_most(self, attempt: int) -> Allowance:
        """Give what is allowed to no pause of an attempt at all, wherever it is."""
        longest_s = max(self.own_s.values(), default=0.0)
        return Allowance.of(self.stated_s, longest_s * self._by(attempt))

    def _by(self, attempt: int) -> float:
        """Give how many times as long fewer workers take over the same work."""
        return self.sizes.get(attempt, 1.0)


def _longest(reference: Course) -> Mapping[Where, float]:
    found: dict[Where, float] = {}
    for pause in pauses(reference.history, reference.attempts, over_ns=0):
        found[pause.where] = max(found.get(pause.where, 0.0), pause.seconds)
    return found


def _sizes(trial: Trial) -> Mapping[int, float]:
    due = trial.reference.attempts[0].size if trial.reference and trial.reference.attempts else 0
    return {a.index: max(1.0, due / a.size) for a in trial.run.attempts if a.size}
