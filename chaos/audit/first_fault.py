"""The first fault of an audit, which comes under the job's own retries (see `retries`)."""

from collections.abc import Sequence
from dataclasses import replace

from chaos.audit.baseline_runs import Clean, CleanRuns
from chaos.audit.budget import AuditProgress, of_one_run
from chaos.audit.place_groups import FaultPlace
from chaos.audit.places import kill_map
from chaos.audit.plans import plan_of, under_own_retries
from chaos.audit.queue import in_order
from chaos.audit.retries import TRIED, Retries
from chaos.model.arguments import command_line
from chaos.model.masked import masked_words
from chaos.words import plural


def begun_again(
    clean: Clean, means: CleanRuns, *, seed: int, asked: int | None
) -> tuple[Clean, Retries]:
    """Inject one fault under the job's own retries, unless Ray Train's setting allows some.

    Where the script calls `fit()` again, so many more as a place may have. Return the clean
    runs with what follows for the profile. `means`: those of the clean runs. `asked`: what
    `--retries` says. The runs are kept below `settings/` of the folder.
    """
    profile = clean.profile
    if clean.plan.job.restarts_by_command:
        return _by_command(clean, asked or 0)
    if asked is not None:
        retries = Retries(source="asked", count=asked)
        return replace(clean, profile=replace(profile, retries=asked)), retries
    if profile.facts.lacks_part("call"):
        is_queued = not profile.facts.lacks_part("queue")
        return clean, Retries(source="queue" if is_queued else "assumed")
    if profile.own("max_failures") != 0:
        return clean, Retries(source="settings")
    places = in_order(kill_map(profile, seed=seed), profile).all

    def after(faults: int) -> Retries:
        place = _simplest(places, faults=faults)
        if place is None:
            return Retries(source="unknown")
        plan = under_own_retries(plan_of(clean.plan, place, profile), profile)
        directory = means.folder.new_run("settings", faults, plan)
        stage = f"{plural(faults, 'fault')} under the job's own retries"
        show = of_one_run(AuditProgress(stage, 0, None), means.show, means.clock)
        baseline, clock = clean.baseline, means.clock
        run = means.folder.execute(means.backend, plan, directory, baseline, clock, show)
        means.folder.prune(directory, keep_logs=True)
        return Retries.seen(run, faults=faults)

    seen = after(1)
    if seen.source != "script":
        return clean, seen
    more = (found for count in range(TRIED, 1, -1) if (found := after(count)).source == "script")
    seen = seen.model_copy(update={"count": next(more, seen).count})
    return replace(clean, profile=replace(profile, most_faults=seen.count)), seen


def _by_command(clean: Clean, count: int) -> tuple[Clean, Retries]:
    """Return the retries of a command that is started once more; Ray Train's own come before."""
    words = masked_words(command_line(clean.plan.job.restart_args))
    own = clean.profile.own("max_failures") if "call" in clean.profile.facts.has else 0
    retries = Retries(
        source="command",
        count=count,
        words=tuple(map(str, words)),
        waits_for_save=bool(words) and clean.profile.facts.lacks_part("reports"),
        before=own if isinstance(own, int) else 0,
    )
    return replace(clean, profile=replace(clean.profile, retries=count)), retries


def _simplest(places: Sequence[FaultPlace], *, faults: int) -> FaultPlace | None:
    """Return the first place of so many kills of workers, and of nothing else."""
    for place in places:
        takes_nodes = any(op.fault.nodes_lost for op in place.ops)
        if len(place.ops) == faults and place.ends_attempts and not takes_nodes:
            return place
    return None
