"""The first fault of an audit, which comes under the job's own retries (see `retries`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chaos.audit.baseline_runs import Clean
from chaos.audit.folder import AuditFolder
from chaos.audit.place_groups import FaultPlace
from chaos.audit.places import kill_map
from chaos.audit.plans import plan_of, under_own_retries
from chaos.audit.queue import in_order
from chaos.audit.retries import TRIED, Retries
from chaos.run.clock import Clock
from chaos.run.ports import Backend


@dataclass(frozen=True)
class FirstFault:
    """The runs with faults that show what begins a job again, below `settings/` of the folder."""

    backend: Backend
    folder: AuditFolder
    clock: Clock
    seed: int

    def under_own_retries(self, clean: Clean, *, asked: int | None) -> tuple[Clean, Retries]:
        """Inject one fault under the job's own retries, unless Ray Train's setting allows some.

        Where the script calls `fit()` again, so many more as a place may have. Return the clean
        runs with what follows for the profile. `asked`: what `--retries` says.
        """
        profile = clean.profile
        if asked is not None:
            retries = Retries(source="asked", count=asked)
            return replace(clean, profile=replace(profile, retries=asked)), retries
        if profile.facts.lacks_part("call"):
            return clean, Retries(source="assumed")
        if profile.own("max_failures") != 0:
            return clean, Retries(source="settings")
        places = in_order(kill_map(profile, seed=self.seed), profile).all
        seen = self._faults(clean, places, count=1)
        if seen.source != "script":
            return clean, seen
        for count in range(TRIED, 1, -1):
            more = self._faults(clean, places, count=count)
            if more.source == "script":
                seen = seen.model_copy(update={"count": more.count})
                break
        return replace(clean, profile=replace(profile, most_faults=seen.count)), seen

    def _faults(self, clean: Clean, places: Sequence[FaultPlace], *, count: int) -> Retries:
        place = _simplest(places, faults=count)
        if place is None:
            return Retries(source="unknown")
        plan = under_own_retries(plan_of(clean.plan, place, clean.profile), clean.profile)
        directory = self.folder.new_run("settings", count, plan)
        run = self.folder.execute(self.backend, plan, directory, clean.baseline, self.clock)
        self.folder.prune(directory, keep_logs=True)
        return Retries.seen(run, faults=count)


def _simplest(places: Iterable[FaultPlace], *, faults: int) -> FaultPlace | None:
    """Return the first place of so many kills of workers, and of nothing else."""
    return next(
        (
            place
            for place in places
            if len(place.ops) == faults
            and place.ends_attempts
            and not any(op.fault.nodes_lost for op in place.ops)
        ),
        None,
    )
