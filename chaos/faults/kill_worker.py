"""A worker process dies, as it does from an out-of-memory kill or a crash."""

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from chaos.faults.base import SAFE, Fault
from chaos.faults.world import LauncherFeature, Outcome, RefusedError, Target, WorkerRelease, World

PROOF_WITHIN_S = 15.0
ENDS_WITHIN_S = 0.3  # a process that a signal ends does so in milliseconds


class KillWorker(Fault):
    """End one worker's process, or several at once; landed when each is gone.

    With `signal: TERM`, a rank trains on until it ends: Ray's worker takes SIGTERM only once the
    rank is let go. With `via: ray` Ray kills the actor (`ray.kill`), for a harness that must not
    send signals itself. Slurm, a shell and torchrun's agent send a signal to a process group, and
    so to the processes of the data loaders: `to: tree`.
    """

    family = "worker"
    ends_attempt = "always"
    on_shared_cluster = SAFE
    at_random = ({}, {"signal": "TERM"})
    sentence = "rank {rank} was killed {place}"

    signal: Literal["KILL", "TERM"] = "KILL"
    grace_s: float | None = Field(
        default=None,
        gt=0,
        le=120,
        description="with `signal: TERM`: a worker that has not ended by then is killed",
    )
    trains_on: bool = Field(
        default=False,
        description="with `grace_s`: the ranks are not held meanwhile, so that a handler of"
        " SIGTERM can save after the step",
    )
    to: Literal["process", "tree"] = Field(
        default="process",
        description="`tree`: the processes that the worker started get the signal as well",
    )
    via: Literal["signal", "ray"] = "signal"
    rank: NonNegativeInt | None = Field(
        default=None, description="the worker to end; left out: the trigger's rank"
    )
    ranks: Literal["one", "all"] = Field(
        default="one", description="`all`: every worker of the group, in one instant"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.grace_s is not None and (self.signal != "TERM" or self.via != "signal"):
            raise ValueError("grace_s goes with `signal: TERM`")
        if self.trains_on and self.grace_s is None:
            raise ValueError("trains_on goes with grace_s")
        if self.to == "tree" and self.via != "signal":
            raise ValueError("`to: tree` goes with a signal, not with `via: ray`")
        if self.ranks == "all" and self.rank is not None:
            raise ValueError("kill_worker has either rank or `ranks: all`")
        return self

    @property
    def needs(self) -> LauncherFeature | None:  # type: ignore[override]
        """The cluster, if it is no signal: only Ray has actors to end."""
        return None if self.via == "signal" else "cluster"

    @property
    def releases_worker_itself(self) -> bool:  # type: ignore[override]
        """Whether the rank trains on until it ends, where a signal does not end it at once."""
        return self.trains_on or (
            self.signal == "TERM" and self.grace_s is None and self.via == "signal"
        )

    @property
    def takes_others(self) -> bool:
        """Whether the whole group goes."""
        return self.ranks == "all"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Kill while the worker is held, and wait for the processes to end."""
        other_targets = world.list_targets().values() if self.ranks == "all" else ()
        targets = (target, *(v for v in other_targets if v.pid != target.pid))
        descendants = [self._find_descendants(world, worker) for worker in targets]
        if self.to == "tree" and not any(descendants):
            ranks = ", ".join(str(worker.rank) for worker in targets)
            raise RefusedError(f"no process was started by rank {ranks}, of which `to: tree` is")
        # All are signalled before any is waited for: a group that goes at once does not go one by
        # one, with the survivors' broken connections in between. The processes below are listed
        # before the first signal, since the ends of their parents hide them.
        for worker, processes in zip(targets, descendants, strict=True):
            self._kill(world, worker, processes)
        if self.trains_on:
            for process in itertools.chain(
                *descendants
            ):  # ranks learn of their end now, not by chance
                world.await_worker_end(process, within_s=ENDS_WITHIN_S)
            release()
        # Where SIGTERM has no handler, the rank ends here, at its exact place. Ray's worker ends
        # only once all that it asked for is answered, and the held rank asks to go on.
        elif self.releases_worker_itself and not all(
            world.await_worker_end(worker, within_s=ENDS_WITHIN_S) for worker in targets
        ):
            release()
        outcomes = [self._prove_end(world, worker) for worker in targets]
        failed_outcomes = [outcome for outcome in outcomes if outcome.status != "ok"]
        if failed_outcomes:
            return failed_outcomes[0]
        details = ", ".join(outcome.detail for outcome in outcomes)
        signalled_count = sum(map(len, descendants))
        return Outcome(
            "ok", f"{details}; {signalled_count} below got it, too" if signalled_count else details
        )

    def _find_descendants(self, world: World, target: Target) -> list[Target]:
        """Return the processes that a worker started, if the signal goes to them as well."""
        if self.to == "process":
            return []
        return [replace(target, pid=pid) for pid in world.list_descendants(target)]

    def _kill(self, world: World, target: Target, processes: Sequence[Target]) -> None:
        if self.via == "ray":
            world.end_worker_actor(target)
            return
        world.signal_worker(target, self.signal)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):  # it may have ended with the worker
                world.signal_worker(process, self.signal)

    def _prove_end(self, world: World, target: Target) -> Outcome:
        name = f"pid {target.pid} of rank {target.rank}"
        # Landed is what was seen to end, and not what was sent: a process may ignore SIGTERM, and a
        # fault that did nothing must not make a verdict.
        if self.grace_s is None:
            if world.await_worker_end(target, within_s=PROOF_WITHIN_S):
                return Outcome("ok", f"{name} is gone")
            words = f"{name} still runs after {PROOF_WITHIN_S:g} s"
            return Outcome("fail", words, signal_sent=self.via == "signal")
        if world.await_worker_end(target, within_s=self.grace_s):
            return Outcome("ok", f"{name} is gone: SIGTERM ended it")
        return self._kill_after_grace(world, target, name)

    def _kill_after_grace(self, world: World, target: Target, name: str) -> Outcome:
        try:
            world.signal_worker(target, "KILL")
        except ProcessLookupError:  # it ended between our last look and the signal
            return Outcome("ok", f"{name} is gone: SIGTERM ended it")
        if world.await_worker_end(target, within_s=PROOF_WITHIN_S):
            waited = f"it outlived SIGTERM by {self.grace_s:g} s, and SIGKILL ended it"
            return Outcome("ok", f"{name} is gone: {waited}")
        return Outcome("fail", f"{name} still runs after SIGTERM and SIGKILL", signal_sent=True)

    def __str__(self) -> str:
        method = "ray.kill" if self.via == "ray" else f"SIG{self.signal}"
        grace = "" if self.grace_s is None else f", SIGKILL after {self.grace_s:g} s"
        tree = " to the tree" if self.to == "tree" else ""
        return f"kill_worker ({method}{tree}{grace}{', all ranks' if self.ranks == 'all' else ''})"
