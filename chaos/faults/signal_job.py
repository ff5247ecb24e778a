"""Slurm sends a job the signal that its script has asked for, as it does before the time limit."""

from typing import ClassVar, Literal

from pydantic import Field

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.world import Outcome, Release, Target, World


class SignalJob(Fault):
    """Send a signal to the job's steps, or to its batch shell (`scancel --signal`, `--batch`).

    It is what `#SBATCH --signal=USR1@60`, or `B:USR1@60`, asks for before the time limit, without
    the wait. Training goes on. Landed when Slurm has passed it on.
    """

    family = "control"
    ends_attempt = "perhaps"
    needs = "queue"
    on_shared_cluster = SharedCluster("never", "it acts on a Slurm of its own")
    sentence = "{fault.to_whom} was sent SIG{fault.signal} {place}"
    whom = "the job"
    lets_go_first = True
    rank: ClassVar[None] = None

    signal: Literal["USR1", "USR2", "TERM", "HUP", "INT"] = "USR1"
    to: Literal["steps", "batch"] = Field(
        default="steps", description="`batch`: to the batch shell alone, as `--signal=B:` has it"
    )

    @property
    def to_whom(self) -> str:
        """The receiver, as part of a sentence."""
        return "the batch shell" if self.to == "batch" else "each task of the job"

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """Send the signal while a worker is held, and let training go on."""
        del target
        world.queue().signal(self.signal, to_batch=self.to == "batch")
        release()
        return Outcome("ok", f"{self.to_whom} was sent SIG{self.signal}")

    def __str__(self) -> str:
        return f"signal_job (SIG{self.signal} to the {self.to})"
