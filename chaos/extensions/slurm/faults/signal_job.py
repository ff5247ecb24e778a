"""Slurm sends a job the signal that its script has asked for, as it does before the time limit."""

from typing import Literal

from pydantic import Field

from chaos.extensions.slurm.faults.queue import QueueFault
from chaos.faults.base import SAFE
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 5.0


class SignalJob(QueueFault):
    """Send a signal to the job's steps, or to its batch shell (`scancel --signal`, `--batch`).

    It is what `#SBATCH --signal=USR1@60`, or `B:USR1@60`, asks for, without the wait. Training goes
    on. Landed when each worker, or the shell, has got it, stopped for as long as it takes to see
    that. Without `srun` no step gets it.
    """

    ends_attempt = "perhaps"
    on_shared_cluster = SAFE
    sentence = "{fault.receiver} was sent SIG{fault.signal} {place}"
    releases_worker_itself = True

    signal: Literal["USR1", "USR2", "TERM", "HUP", "INT"] = "USR1"
    to: Literal["steps", "batch"] = Field(
        default="steps", description="`batch`: to the batch shell alone, as `--signal=B:` has it"
    )

    @property
    def receiver(self) -> str:
        """The receiver, as part of a sentence."""
        return "the batch shell" if self.to == "batch" else "each task of the job"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Send the signal while a worker is held, and let training go on."""
        del target
        is_sent = self.find_queue(world).signal(
            self.signal, to_batch=self.to == "batch", within_s=PROOF_WITHIN_S
        )
        release()
        if is_sent:
            return Outcome("ok", f"{self.receiver} was sent SIG{self.signal}")
        return Outcome("fail", f"SIG{self.signal} did not come to {self.receiver}")

    def __str__(self) -> str:
        return f"signal_job (SIG{self.signal} to the {self.to})"
