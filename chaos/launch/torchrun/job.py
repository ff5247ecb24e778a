"""The job as its launcher sees it: how it was started, and what all agents together came to."""

from collections.abc import Collection, Mapping

from chaos.launch.torchrun.rendezvous import max_restarts
from chaos.model.event import AgentEnded, FitCalled, FitRaised, FitReturned
from chaos.model.launcher import Launcher
from chaos.model.plan import Plan

_ME: Launcher = "torchrun"
_OF_WORKERS = "ChildFailedError"  # torch's error for what its workers came to


def job_called(plan: Plan) -> FitCalled:
    """Return the event of the start of a plan's job."""
    job = plan.job
    least = job.min_workers or job.workers
    workers = job.workers if least == job.workers else [least, job.workers]
    return FitCalled(
        trainer=_ME,
        workers=job.workers,
        run_name=plan.slug,
        storage_path="",
        settings={"num_workers": workers, "max_failures": max_restarts(plan)},
        replaced={},
    )


def job_ended(
    codes: Mapping[str, int | None], ended: Mapping[str, AgentEnded], worked: Collection[str]
) -> FitReturned | FitRaised:
    """Return how a job ended, by its agents.

    `codes`: the exit codes of the agents that no fault took, `worked`: the nodes that have had
    workers. An agent that comes when the others are done has no part in the job.
    """
    mine = {node: code for node, code in codes.items() if node in worked or not worked}
    failed = [ended[node] for node in mine if node in ended and ended[node].error is not None]
    if mine and not any(mine.values()):
        return FitReturned(metrics={}, checkpoint=None, launcher=_ME)
    # Where a worker failed, the other agents raise for the rendezvous that its agent has closed.
    failed.sort(key=lambda event: event.error != _OF_WORKERS)
    if failed:
        error, message = failed[0].error or "", failed[0].message
    elif any(mine.values()):
        codes_seen = ", ".join(f"{node} {code}" for node, code in mine.items())
        error, message = "SystemExit", f"agents ended without an error: {codes_seen}"
    else:
        error, message = "NodeDied", "no node is left that could go on"
    return FitRaised(error=error, message=message, launcher=_ME)
