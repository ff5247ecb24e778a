"""Audit a script: choose its launcher, make the plan, and run it with faults."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from chaos.app.audit_request import AuditRequest
from chaos.app.script import (
    build_confinement,
    choose_backend,
    choose_launcher,
    create_audit_folder,
    find_launcher_facts,
    locate_script,
    retry_launcher,
)
from chaos.audit.answer import ACCEPTABLE
from chaos.audit.audit import Audit, SiteChoice, Spread
from chaos.audit.budget import AuditProgress, Budget, MachineLoad
from chaos.audit.continuation import EarlierAudit
from chaos.audit.folder import AuditFolder
from chaos.audit.lanes import count_lanes
from chaos.audit.notes import Note
from chaos.audit.plans import ONE_NODE, NodeRange, build_base_plan, set_launcher, set_restart
from chaos.audit.repro import select_confirm
from chaos.audit.result import AuditResult
from chaos.audit.site_category import SiteCategory, select_site_categories
from chaos.audit.site_sample import STEP_PLACES_MAX
from chaos.audit.threads import ThreadLimit
from chaos.errors import OtherLauncherError, RequestError
from chaos.extension_modules import load_extension_module
from chaos.launch.backends import open_backend, open_lanes, open_launcher
from chaos.model.bounds import Tolerance
from chaos.model.expect import AcceptedFinding, Expect
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS
from chaos.model.launcher_facts import Restart
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.plan import Plan
from chaos.run.clock import SystemClock
from chaos.run.display_path import format_path
from chaos.run.machine import usable_cpus
from chaos.run.ports import Announcer

# Where neither a time nor a number of runs is asked for; what an answer needs comes before it.


class ProgressListener(Protocol):
    """The display of an audit while it runs."""

    def show(self, progress: AuditProgress) -> None:
        """Show the progress, at each change."""

    def show_notes(self, notes: Sequence[Note]) -> None:
        """Show what the runs without a fault have shown, before any other run begins."""


class AuditListener(Announcer, Protocol):
    """The receiver of an audit's lines and of its progress."""

    def follow(self, folder: Path) -> AbstractContextManager[ProgressListener]:
        """Return the context in which the audit runs; its files come into a folder.

        If the audit is broken off, the card of what was found until then may be in `audit.json`.
        """


def run_audit(request: AuditRequest, listener: AuditListener, *, command: str) -> AuditResult:
    """Return the card of an audit, and the folder that it is in.

    Where a guessed launcher proves wrong, the script is started again by the right one; a launcher
    that was asked for stands. `command` is the line that repeats the audit. Raises `UsageError` for
    a mistake in the request, and for a job that fails without a fault.
    """
    return retry_launcher(lambda error: _AuditRun(request, listener, command, error).run(), request)


class _AuditRun:
    """One attempt at an audit, with the launcher that is given, or that the script shows."""

    def __init__(
        self,
        request: AuditRequest,
        listener: AuditListener,
        command: str,
        launcher_error: OtherLauncherError | None,
    ) -> None:
        """`launcher_error`: what the attempt under another launcher has shown."""
        self._listener, self._command = listener, command
        self._plant_losses = None
        if request.controls:
            self._plant_losses = load_extension_module("controls.trials", "--controls").plant_losses
        self._script = locate_script(request.script, is_module=request.module)
        launcher = choose_launcher(
            request.launcher,
            self._script,
            listener,
            launcher_error,
            workers=request.workers,
            takes_any_script=True,
        )
        self._facts = find_launcher_facts(request, self._script, launcher)
        backend = choose_backend(request.backend, self._facts.name, listener)
        self._request = request = replace(request, backend=backend)
        self._restart: Restart | None = "command" if request.restart_args else request.restart

    def run(self) -> AuditResult:
        request, facts = self._request, self._facts
        choice, is_on_ray = self._build_choice(), request.backend == "ray"
        spread = _build_spread(request)
        plan, threads = self._build_plan()
        earlier_audit = self._find_earlier_audit(plan) if request.continues else None
        if request.continues:
            seed = plan.seed or (earlier_audit.card.seed if earlier_audit else 0)
            choice = replace(choice, seed=seed)
        folder = create_audit_folder(plan, request.reports)
        with self._listener.follow(folder.path) as display, ExitStack() as exit_stack:
            card = Audit(
                self._confine_plan(plan, folder),
                exit_stack.enter_context(open_launcher(facts.name, self._listener)),
                folder,
                SystemClock(),
                choice,
                _build_budget(request, facts),
                display.show,
                display.show_notes,
                select_confirm(request.confirm and not is_on_ray, facts, request.reports),
                request.explain,
                self._plant_losses,
                follows_script=request.workers is None and facts.workers.script_sets_count,
                retries=request.retries,
                grace_s=request.grace or 0.0,
                command=self._command,
                count_lanes=self._count_lanes,
                threads=threads,
                machine=MachineLoad(usable_cpus(), os.getloadavg()[0]),
                ray=exit_stack.enter_context(open_backend("ray", self._listener))
                if is_on_ray
                else None,
                open_lanes=spread,
                earlier_audit=earlier_audit,
            ).run()
        return AuditResult(card, folder.path)

    def _build_choice(self) -> SiteChoice:
        """Return the places: without nodes that can be lost, in the order for crashes."""
        request, facts = self._request, self._facts.apply_restart(self._restart)
        is_on_several = (request.nodes or ONE_NODE) != ONE_NODE
        can_lose_nodes = facts.replaces_lost_nodes or facts.nodes.returns_preempted or is_on_several
        question = request.question if can_lose_nodes else "crash"
        groups: Sequence[SiteCategory] = select_site_categories(request.places, question)
        return SiteChoice(
            request.seed, request.exhaustive, STEP_PLACES_MAX, groups, question, request.one_by_one
        )

    def _build_plan(self) -> tuple[Plan, ThreadLimit | None]:
        """Return the plan with the threads of each process, and their choice, if there is one."""
        request, facts = self._request, self._facts
        plan = build_base_plan(
            self._script,
            request.arguments,
            cwd=Path.cwd(),
            seed=request.seed,
            workers=request.workers or facts.workers.default_count,
            fit=request.fit,
        )
        plan = set_launcher(
            plan,
            facts.name,
            request.arguments,
            backend=request.backend,
            epoch_steps=request.epoch_steps,
            nodes=self._find_node_range(),
        )
        plan = _apply_restart(plan, self._restart, request.restart_args or ())
        lane_count = self._count_lanes(plan.job.workers)
        threads = ThreadLimit.choose(plan, os.environ, cores=usable_cpus(), lanes=lane_count)
        return plan if threads is None else threads.apply_threads(plan), threads

    def _find_node_range(self) -> NodeRange:
        """Return the nodes: as the script itself says, or as asked for."""
        count = self._facts.count_script_nodes(self._script.file)
        return self._request.nodes or ONE_NODE if count is None else NodeRange(count, count)

    def _count_lanes(self, workers: int) -> int:
        """Return the number of runs at a time: as asked for, or by the job's workers."""
        if self._request.jobs is not None:
            return self._request.jobs
        # Each process that is started anew imports torch.
        is_real = self._request.backend != "fork"
        is_one_by_one = is_real or (self._facts.script.states_ports and workers > 1)
        return 1 if is_one_by_one else count_lanes(usable_cpus(), workers=workers)

    def _find_earlier_audit(self, plan: Plan) -> EarlierAudit | None:
        """Return the audit to continue; say so without one."""
        reports = self._request.reports
        earlier_audit = EarlierAudit.find_latest(reports, plan)
        if earlier_audit is None:
            self._listener.say(
                f"{format_path(reports.resolve())} has no audit of {Path(plan.file).name} with "
                "these arguments to continue: this is the first"
            )
        return earlier_audit

    def _confine_plan(self, plan: Plan, folder: AuditFolder) -> Plan:
        """Return the plan with what the job may write, and what is expected of it."""
        request = self._request
        limits = build_confinement(
            folder, request.allow_writes, keeps_storage=request.storage == "own"
        )
        return plan.replace(
            confined=limits, expect=_build_expectation(plan, request), storage={**request.tier}
        )


def _apply_restart(plan: Plan, restart: Restart | None, words: Sequence[str]) -> Plan:
    """Return the plan of a job that is started once more, if that is asked for."""
    is_one_node = plan.shape.nodes == 1 or plan.job.launcher_facts.nodes.has_spares
    if restart == "command" and not is_one_node:
        raise RequestError(
            "{restart:command} starts one node again, and {nodes} names several",
            "Leave one of them out.",
            field="restart",
        )
    return set_restart(plan, restart, words)


def _build_budget(request: AuditRequest, facts: LauncherPolicy) -> Budget:
    is_exhaustive = request.exhaustive or request.backend == "ray"
    is_default = request.time_limit is None and request.max_runs is None and not is_exhaustive
    limit_s = facts.times.audit_s if is_default else request.time_limit
    return Budget(limit_s, request.max_runs, request.exitfirst, is_default=is_default)


def _build_expectation(plan: Plan, request: AuditRequest) -> Expect:
    """Return what is expected of the job, with the findings that are accepted."""
    changes: dict[str, object] = {
        "accept": tuple(word for word in ACCEPTABLE if word in request.accept),
        "accept_findings": tuple(
            item for item in request.accept if isinstance(item, AcceptedFinding)
        ),
        "sampling": request.sampling,
    }
    if request.tolerance is not None:
        changes["loss_tolerance"] = Tolerance(relative=request.tolerance)
    return plan.expect.model_copy(update=changes)


def _build_spread(request: AuditRequest) -> Spread | None:
    """Return a function that opens lanes on a running cluster; raise for one that is not there."""
    if (address := request.address) is None:
        return None
    LAUNCHER_FACTS[DEFAULT_LAUNCHER].find_cluster_nodes(address)
    return lambda workers, places, check: open_lanes(
        address, workers=workers, lanes_max=min(request.jobs or places, places), check=check
    )
