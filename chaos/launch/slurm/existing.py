"""A Slurm that chaos did not start: one job of this user's there, and nothing else.

It is the one that Slurm's own commands find on this machine (`SLURM_CONF`, /etc/slurm), and has to
be at the address that the user has named. Whatever is done, is done to the run's own job, with the
rights of the user who runs chaos.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from chaos.errors import ClusterError, HarnessError, UnmetNeedError
from chaos.launch.slurm import ending
from chaos.launch.slurm.client import JobState, Slurm
from chaos.launch.slurm.header import refuse_on_existing
from chaos.plan.permitted import NodeFacts
from chaos.run.machine import SLURM_COMMANDS, lacking_of_slurm
from chaos.run.sbatch_header import Option, options_of

HOW = "On Debian and Ubuntu: apt-get install slurm-client."
# Variables by which a user says what the site needs of each job; of others no word is taken.
_SITE = re.compile(r"^SBATCH_(?:ACCOUNT|PARTITION|QOS|RESERVATION|CONSTRAINT)$")
_OTHERS = re.compile(r"^(?:SLURM|SBATCH|SRUN)_")
# Ends that only others bring about: nothing of the kind is among the faults that are done there.
_NOT_US = "Slurm, or another user of it, did this to the job, and chaos did not: "
_BY_OTHERS = ("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "SUSPENDED", "STOPPED")


@dataclass
class ExistingSlurm(Slurm):
    """The Slurm at an address, for the job of one run; `stop` cancels that job."""

    address: str
    script: Path
    env: Mapping[str, str]
    #: random, and in the comment of the run's job
    token: str
    _ender: "subprocess.Popen[str] | None" = field(init=False, default=None)

    look_s: ClassVar[float] = 1.0

    @property
    def mark(self) -> str:
        """The word in its job's comment, by which the job is known."""
        return f"chaos-{self.token}"

    def start(self) -> None:
        """Look whether the job can be there; start the process that cancels it in the end.

        Raises `ClusterError` if it cannot, and `UnmetNeedError` without Slurm's commands.
        """
        given = options_of(self.script)
        refuse_on_existing(self.script, given)
        refuse_elsewhere(nodes_at(self.address), self._partitions(given))
        self._ender = subprocess.Popen(
            [sys.executable, "-m", ending.__name__, self.mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # a signal to this session or group does not end it
        )

    def stop(self) -> None:
        """Cancel what is left of the job, and wait until it has left its nodes."""
        if self._ender is None:
            return
        self._ender.communicate(ending.OVER)
        if self._ender.returncode:
            raise HarnessError(
                f"the job with the comment {self.mark} could not be cancelled at {self.address}; "
                f"`squeue --me --format='%i %k'` shows its number, for `scancel`"
            )

    def ended_by_others(self, seen: JobState) -> str | None:
        return f"{_NOT_US}{seen.state}" if seen.state in _BY_OTHERS else None

    def requeued_by_others(self, why: str, *, is_struck: bool) -> str | None:
        """Return that others requeued the job: no fault has, or none does for this reason."""
        is_others = not is_struck or any(word in why for word in ("preemption", "node failure"))
        return f"{_NOT_US}requeued{why}" if is_others else None

    def cancel(self, number: int) -> None:
        if self._shown(number):
            super().cancel(number)

    def options(self, given: Mapping[str, Option]) -> tuple[str, ...]:
        """Return the comment: the script's own, followed by the run's mark."""
        own = given["--comment"].value + " " if "--comment" in given else ""
        return (f"--comment={own}{self.mark}",)

    def takes(self, variable: str) -> bool:
        return bool(_SITE.match(variable)) or not _OTHERS.match(variable)

    @property
    def own_env(self) -> Mapping[str, str]:
        """The settings that were looked at, and no other ones that a job's environment names."""
        return {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}

    # -- inside ------------------------------------------------------------------------------

    def _act(self, number: int, *words: str) -> None:
        """Do something to a job, if it is the run's own; raises `HarnessError` if it is not."""
        if not self._shown(number):
            raise HarnessError(f"Slurm shows no job {number}, and nothing was done to it")
        super()._act(number, *words)

    def _shown(self, number: int) -> str:
        """Return what Slurm shows of a job; raises `HarnessError` if it is not the run's own."""
        told = super()._shown(number)
        if told and not ending.is_own(told, mark=self.mark, uid=os.getuid()):
            raise HarnessError(f"job {number} is not the run's own, and nothing was done to it")
        return told

    def _partitions(self, given: Mapping[str, Option]) -> frozenset[str]:
        """Return the partitions that the job may be in: by the environment, its header, or all."""
        stated = given["--partition"].value if "--partition" in given else ""
        stated = self.env.get("SBATCH_PARTITION", stated) or default_partition(
            _asked("scontrol", "show", "partition", "-o")
        )
        return frozenset(filter(None, stated.split(",")))


def nodes_at(address: str) -> list[NodeFacts]:
    """Return the nodes of the Slurm at an address, each with its partitions.

    Raises `ClusterError` if Slurm's commands find none on this machine, or another one.
    """
    if missing := lacking_of_slurm(SLURM_COMMANDS):
        raise UnmetNeedError(f"the job needs Slurm, and no `{missing[0]}` is found here", HOW)
    settings = dict(re.findall(r"(?m)^(\S+)\s*= (.*)$", _asked("scontrol", "show", "config")))
    found = addresses(settings)
    if address not in found:
        raise ClusterError(
            f"cluster.address is {address}, and Slurm's commands here ask {found[0]}",
            "The commands follow SLURM_CONF, or /etc/slurm/slurm.conf.",
        )
    return nodes_in(_asked("scontrol", "show", "node", "-o"), socket.gethostname())


def addresses(settings: Mapping[str, str]) -> list[str]:
    """Return the addresses of a Slurm's controllers, by the settings that scontrol shows.

    Each has a name, and may have an address: `SlurmctldHost[0] = head(10.0.0.1)`.
    """
    port = settings.get("SlurmctldPort", "").partition("-")[0]  # of several the first
    hosts = [value for name, value in settings.items() if name.startswith("SlurmctldHost[")]
    return [f"{one}:{port}" for host in hosts for one in re.findall(r"[^()\s]+", host)]


def nodes_in(text: str, here: str) -> list[NodeFacts]:
    """Return the nodes that `scontrol show node -o` lists; `here` is this host's name."""
    found = []
    for line in text.splitlines():
        told = dict(re.findall(r"(\w+)=(\S*)", line))
        if "NodeName" in told:
            host = told.get("NodeHostName", "")
            found.append(
                NodeFacts(
                    node_id=told["NodeName"],
                    address=told.get("NodeAddr", ""),
                    cpus=float(told.get("CPUTot", 0)),
                    hostname=host,
                    is_own=host.partition(".")[0] == here.partition(".")[0],
                    partitions=frozenset(told.get("Partitions", "").split(",")),
                )
            )
    return found


def default_partition(text: str) -> str:
    """Return the partition of jobs that name none; nothing where there is none."""
    found = re.search(r"(?m)^PartitionName=(\S+) .*\bDefault=YES\b", text)
    return "" if found is None else found[1]


def refuse_elsewhere(known: Sequence[NodeFacts], partitions: frozenset[str]) -> None:
    """Raise `ClusterError` where the job may come onto a node that is not this host.

    Its processes ask chaos over a socket of this host, and chaos sends signals to them by pid.
    """
    of_job = [node for node in known if not partitions or node.partitions & partitions]
    away = next((node for node in of_job if not node.is_own), None)
    if away is not None:
        names = f" (partition {', '.join(sorted(partitions))})" if partitions else ""
        raise ClusterError(
            f"the job may come onto node {away.node_id} on host {away.hostname}{names}, and its "
            "processes have to be on the host of chaos",
            "Run chaos on that host, with a partition that has no node of another one "
            "(`#SBATCH --partition`, or SBATCH_PARTITION).",
        )


def _asked(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{words[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
