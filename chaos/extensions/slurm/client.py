"""A Slurm, asked by its own commands as a user does it: jobs are submitted, looked at, and ended.

Seen with slurm-wlm 22.05 of Debian.
"""

import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaos.errors import HarnessError, JobError
from chaos.extensions.sbatch_header import SbatchOption, load_options
from chaos.model.event import JobAccounted

_SILENT = (
    "Slurm requeued the job since a node did not answer, and chaos did nothing to it: on a busy "
    "machine slurmd may come too late"
)
_ENV = re.compile(r"^(?:SLURM|SBATCH|SRUN)_")


@dataclass(frozen=True)
class JobState:
    """The state of a job, as `scontrol show job` prints it."""

    state: str
    restarts: int
    #: its preemption has begun
    is_preempted: bool
    #: the code of the script, and the signal that ended it
    code: int
    signal: int
    #: why it does not run, in Slurm's word
    reason: str = ""

    @property
    def waits(self) -> bool:
        """Whether it waits for nodes, and need not be released first."""
        return self.state == "PENDING" and not re.search("(?i)held|never", self.reason)

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDS

    @property
    def has_begun(self) -> bool:
        """Whether it has run, or does."""
        return self.state not in ("PENDING", "CANCELLED")

    @property
    def has_nodes(self) -> bool:
        """Whether its processes may still be on its nodes."""
        return self.state in _ON_NODES


_ON_NODES = (
    *("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED"),
    *("SIGNALING", "STAGE_OUT", "RESIZING"),
)
# All others are on the way, and may last for a look or two: SIGNALING before FAILED, for one.
_ENDS = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE"),
    *("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY"),
)


class Slurm(ABC):
    """The commands of one Slurm; `start` is called before the first, and `stop` after the last."""

    #: seconds between two looks at a job, each of which is a call of scontrol
    poll_s: ClassVar[float] = 0.1

    def submit(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: Path,
        *,
        forces_log: bool = False,
        options: Sequence[str] = (),
    ) -> int:
        """Submit a script with its arguments; return the job's number.

        Its output goes to `log`, unless the script names a file; with `forces_log` also then. The
        options of sbatch are put before those of the script.
        Raises `JobError` with sbatch's words if it does not take the script.
        """
        header = load_options(Path(words[0]))
        chaos_options = ["--parsable", "--export=ALL", *self.options(header), *options]
        if forces_log or "--output" not in header:
            chaos_options.append(f"--output={log}")
        if forces_log and "--error" in header:
            chaos_options.append(f"--error={log}")
        job_env = {name: value for name, value in env.items() if self.accepts_variable(name)}
        done = self._call("sbatch", *chaos_options, *words, env=job_env, cwd=cwd)
        number = done.stdout.strip().partition(";")[0]  # a cluster's name may follow
        if done.returncode or not number.isdigit():
            text = done.stderr.strip().removeprefix("sbatch: error: ") or done.stdout.strip()
            raise JobError(f"sbatch: {text}", "Is it a script for sbatch?", location=words[0])
        return int(number)

    def job(self, number: int) -> JobState | None:
        """Return the state of a job; None if Slurm does not answer now."""
        fields = dict(re.findall(r"(\w+)=(\S*)", self._show_job(number)))
        if "JobState" not in fields:
            return None
        code, _, signal = fields["ExitCode"].partition(":")
        return JobState(
            state=fields["JobState"],
            restarts=int(fields["Restarts"]),
            is_preempted=fields.get("PreemptTime", "None") != "None",
            code=int(code),
            signal=int(signal),
            reason=fields.get("Reason", ""),
        )

    def list_accounts(self, number: int) -> list[JobAccounted] | None:
        """Return the starts of a job that it has accounted for; None where it is not asked."""
        del number
        return None

    def control(self, verb: str, number: int) -> None:
        """Requeue, hold, release, suspend or resume a job.

        Raises `HarnessError` if Slurm refuses.
        """
        self._change_job(number, "scontrol", verb, str(number))

    def signal(self, number: int, name: str, *, to_batch: bool) -> None:
        """Send a signal to a job's steps, or to its batch shell alone."""
        to = ("--batch",) if to_batch else ()
        self._change_job(number, "scancel", f"--signal={name}", *to, str(number))

    def cancel(self, number: int) -> None:
        """Cancel a job, if it is still there."""
        self._call("scancel", str(number))

    def describe_foreign_end(self, job_state: JobState) -> str | None:
        """Return in words what others than this run have done to its job, by its state; or None."""
        del job_state
        return None

    def describe_foreign_requeue(self, reason: str, *, has_fault: bool) -> str | None:
        """Return in words that another requeued the job than a fault has, if so.

        `reason` is what the job's output says of it; `has_fault`: a fault was injected before it.
        """
        return _SILENT if "node failure" in reason and not has_fault else None

    # -- inside ------------------------------------------------------------------------------

    def _show_job(self, number: int) -> str:
        """Return what scontrol shows of a job; nothing if Slurm does not answer now."""
        done = self._call("scontrol", "show", "job", "-o", str(number))
        return "" if done.returncode else done.stdout

    def _change_job(self, number: int, *words: str) -> None:
        """Do something to a job."""
        del number
        self._call_checked(*words)

    def _call_checked(self, *words: str) -> str:
        done = self._call(*words)
        if done.returncode:
            raise HarnessError(f"{words[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _call(
        self, *words: str, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words,
            env={**(os.environ if env is None else env), **self.command_env},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    def accepts_variable(self, variable: str) -> bool:
        """Return whether sbatch is called with a variable: those of another job are no word."""
        return not _ENV.match(variable)

    # -- filled in ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def command_env(self) -> Mapping[str, str]:
        """The variables by which the commands find it."""

    @abstractmethod
    def options(self, header: Mapping[str, SbatchOption]) -> tuple[str, ...]:
        """Return the options of sbatch beside those that a script has in its header."""

    @abstractmethod
    def start(self) -> None:
        """Make ready for a job."""

    @abstractmethod
    def stop(self) -> None:
        """End all that `start` has started, and the job."""
