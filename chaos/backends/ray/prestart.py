"""The option to start the next attempt's workers beforehand, and the cases in which it is off."""

import os

from chaos.backends.ray import compat
from chaos.model.event import AnyEvent, WorkersPrestarted
from chaos.model.plan import Plan
from chaos.run.ports import Say

FORE = "--prestart-workers:"
TOLD = "recoveries are shorter than on a cluster that does no such thing"


class Prestart:
    """The option of the command line; each message about it is shown once."""

    def __init__(self, say: Say, *, is_wanted: bool) -> None:
        self._say = say
        self._is_wanted = is_wanted
        self._told = set[str]()

    def serves(self, plan: Plan) -> bool:
        """Return whether a run's workers are prestarted; if not, show the user the reason."""
        if not self._is_wanted or not plan.ops:
            return False  # without faults there is no recovery
        why = why_not(plan, can_ask=compat.can_prestart(), cores=os.cpu_count() or 1)
        self._tell(f"{FORE} {TOLD}" if why is None else f"{FORE} off, {why}")
        return why is None

    def look_back(self, seen: list[AnyEvent]) -> None:
        """Show the user whether raylets could not be asked."""
        for event in seen:
            if isinstance(event, WorkersPrestarted) and event.error is not None:
                self._tell(f"{FORE} {event.error}")

    def _tell(self, words: str) -> None:
        if words not in self._told:
            self._told.add(words)
            self._say(words)


def why_not(plan: Plan, *, can_ask: bool, cores: int) -> str | None:
    """Return the reason why a plan's workers are not prestarted; None if they are."""
    if plan.shape.address is not None:
        return "the cluster is not chaos's own"
    if plan.job.trial is not None:
        return "the job's trainers are made by Ray Tune"
    if not can_ask:
        return "grpcio is not installed (the extra `prestart`)"
    if cores <= plan.job.workers:  # measured on two: see docs/notes/0011
        return f"this machine's {cores} core(s) are no more than the job's workers"
    return None
