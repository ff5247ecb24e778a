"""The job as its launcher sees it: how it was started, and what all agents together came to."""

from collections.abc import Collection, Mapping

from chaos.launch.torchrun.rendezvous import max_restarts
from chaos.model.event import AgentEnded, FitCalled, FitRaised, FitReturned
from chaos.model.launcher import Launcher
from chaos.model.plan import Plan

_LAUNCHER: Launcher = "torchrun"
_WORKER_ERROR = "ChildFailedError"  # torch's error for what its workers came to


def build_fit_event(plan: Plan) -> FitCalled:
    """Return the event of the start of a plan's job."""
    job = plan.job
    workers_min = job.min_workers or job.workers
    workers = job.workers if workers_min == job.workers else [workers_min, job.workers]
    return FitCalled(
        trainer=_LAUNCHER,
        workers=job.workers,
        run_name=plan.slug,
        storage_path="",
        settings={"num_workers": workers, "max_failures": max_restarts(plan)},
        original_settings={},
    )


def build_end_event(
    codes: Mapping[str, int | None],
    end_events: Mapping[str, AgentEnded],
    worker_nodes: Collection[str],
) -> FitReturned | FitRaised:
    """Return how a job ended, by its agents.

    `codes`: the exit codes of the agents that no fault took, `worker_nodes`: the nodes that have
    had workers. An agent that comes when the others are done has no part in the job.
    """
    job_codes = {
        node: code for node, code in codes.items() if node in worker_nodes or not worker_nodes
    }
    failures = [
        end_events[node]
        for node in job_codes
        if node in end_events and end_events[node].error is not None
    ]
    if job_codes and not any(job_codes.values()):
        return FitReturned(metrics={}, checkpoint=None, launcher=_LAUNCHER)
    # Where a worker failed, the other agents raise for the rendezvous that its agent has closed.
    failures.sort(key=lambda event: event.error != _WORKER_ERROR)
    if failures:
        error, message = failures[0].error or "", failures[0].message
    elif any(job_codes.values()):
        described = ", ".join(f"{node} {code}" for node, code in job_codes.items())
        error, message = "SystemExit", f"agents ended without an error: {described}"
    else:
        error, message = "NodeDied", "no node is left that could go on"
    return FitRaised(error=error, message=message, launcher=_LAUNCHER)
