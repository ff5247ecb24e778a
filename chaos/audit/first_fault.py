"""The first fault of an audit, which comes under the job's own retries (see `retries`)."""

from collections.abc import Sequence
from dataclasses import replace

from chaos.audit.baseline_runs import CleanResult, CleanRunner
from chaos.audit.budget import AuditProgress, start_run_display
from chaos.audit.plans import build_fault_plan, use_script_retries
from chaos.audit.retries import TRIED, Retries
from chaos.audit.site_groups import FaultSite
from chaos.audit.site_order import order_places
from chaos.audit.site_sample import choose_fault_sites
from chaos.model.arguments import build_command_line
from chaos.model.masking import mask_words
from chaos.wording import plural


def find_retries(
    clean: CleanResult, clean_runs: CleanRunner, *, seed: int, requested_count: int | None
) -> tuple[CleanResult, Retries]:
    """Inject one fault under the job's own retries, unless Ray Train's setting allows some.

    Where the script calls `fit()` again, so many more as a place may have. Return the clean
    runs with what follows for the profile. `clean_runs`: the backend, folder and clock of those
    runs. `requested_count`: what `--retries` says. The runs are kept below `settings/` of the
    folder.
    """
    profile = clean.profile
    if clean.plan.job.restarts_by_command:
        return _set_command_retries(clean, requested_count or 0)
    if requested_count is not None:
        retries = Retries(source="asked", count=requested_count)
        return replace(clean, profile=replace(profile, retries=requested_count)), retries
    if (source := profile.facts.retries.source) is not None:
        return clean, Retries(source=source)
    if profile.find_setting("max_failures") != 0:
        return clean, Retries(source="settings")
    places = order_places(choose_fault_sites(profile, seed=seed), profile).all_places

    def try_faults(faults: int) -> Retries:
        place = _find_simplest(places, faults=faults)
        if place is None:
            return Retries(source="unknown")
        plan = use_script_retries(build_fault_plan(clean.plan, place, profile), profile)
        directory = clean_runs.folder.new_run("settings", faults, plan)
        stage = f"{plural(faults, 'fault')} under the job's own retries"
        show = start_run_display(AuditProgress(stage, 0, None), clean_runs.show, clean_runs.clock)
        baseline, clock = clean.baseline, clean_runs.clock
        run = clean_runs.folder.execute(clean_runs.backend, plan, directory, baseline, clock, show)
        clean_runs.folder.prune(directory, keep_logs=True)
        return Retries.from_run(run, faults=faults)

    observed_retries = try_faults(1)
    if observed_retries.source != "script":
        return clean, observed_retries
    larger_results = (
        result for count in range(TRIED, 1, -1) if (result := try_faults(count)).source == "script"
    )
    observed_retries = observed_retries.replace(count=next(larger_results, observed_retries).count)
    return replace(
        clean, profile=replace(profile, most_faults=observed_retries.count)
    ), observed_retries


def _set_command_retries(clean: CleanResult, count: int) -> tuple[CleanResult, Retries]:
    """Return the retries of a command that is started once more; Ray Train's own come before."""
    words = mask_words(build_command_line(clean.plan.job.restart_args))
    script_retries = clean.profile.find_setting("max_failures")
    retries = Retries(
        source="command",
        count=count,
        words=tuple(map(str, words)),
        waits_for_save=bool(words) and clean.profile.facts.script.restart_args_wait,
        before=script_retries if isinstance(script_retries, int) else 0,
    )
    return replace(clean, profile=replace(clean.profile, retries=count)), retries


def _find_simplest(places: Sequence[FaultSite], *, faults: int) -> FaultSite | None:
    """Return the first place of so many kills of workers, and of nothing else."""
    for place in places:
        takes_nodes = any(op.fault.lost_node_count for op in place.ops)
        if len(place.ops) == faults and place.ends_attempts and not takes_nodes:
            return place
    return None
