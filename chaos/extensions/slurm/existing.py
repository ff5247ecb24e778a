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
from chaos.extensions.sbatch_header import SbatchOption, load_options
from chaos.extensions.slurm import ending
from chaos.extensions.slurm.client import JobState, Slurm
from chaos.extensions.slurm.header import check_header
from chaos.extensions.slurm.programs import COMMANDS, find_missing_slurm
from chaos.plan.permissions import NodeFacts

INSTALL_HINT = "On Debian and Ubuntu: apt-get install slurm-client."
# Variables by which a user says what the site needs of each job; of others no word is taken.
_SITE_VARIABLES = re.compile(r"^SBATCH_(?:ACCOUNT|PARTITION|QOS|RESERVATION|CONSTRAINT)$")
_SLURM_VARIABLES = re.compile(r"^(?:SLURM|SBATCH|SRUN)_")
# Ends that only others bring about: nothing of the kind is among the faults that are done there.
_FOREIGN_ACTION = "Slurm, or another user of it, did this to the job, and chaos did not: "
_FOREIGN_STATES = ("CANCELLED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "SUSPENDED", "STOPPED")


@dataclass
class ExistingSlurm(Slurm):
    """The Slurm at an address, for the job of one run; `stop` cancels that job."""

    address: str
    script: Path
    env: Mapping[str, str]
    #: random, and in the comment of the run's job
    token: str
    _canceller: "subprocess.Popen[str] | None" = field(init=False, default=None)

    poll_s: ClassVar[float] = 1.0

    @property
    def mark(self) -> str:
        """The word in its job's comment, by which the job is known."""
        return f"chaos-{self.token}"

    def start(self) -> None:
        """Look whether the job can be there; start the process that cancels it in the end.

        Raises `ClusterError` if it cannot, and `UnmetNeedError` without Slurm's commands.
        """
        header = load_options(self.script)
        check_header(self.script, header)
        require_local_nodes(find_cluster_nodes(self.address), self._find_partitions(header))
        self._canceller = subprocess.Popen(
            [sys.executable, "-m", ending.__name__, self.mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # a signal to this session or group does not end it
        )

    def stop(self) -> None:
        """Cancel what is left of the job, and wait until it has left its nodes."""
        if self._canceller is None:
            return
        self._canceller.communicate(ending.OVER)
        if self._canceller.returncode:
            raise HarnessError(
                f"the job with the comment {self.mark} could not be cancelled at {self.address}; "
                f"`squeue --me --format='%i %k'` shows its number, for `scancel`"
            )

    def describe_foreign_end(self, job_state: JobState) -> str | None:
        return f"{_FOREIGN_ACTION}{job_state.state}" if job_state.state in _FOREIGN_STATES else None

    def describe_foreign_requeue(self, reason: str, *, has_fault: bool) -> str | None:
        """Return that others requeued the job: no fault has, or none does for this reason."""
        is_foreign = not has_fault or any(word in reason for word in ("preemption", "node failure"))
        return f"{_FOREIGN_ACTION}requeued{reason}" if is_foreign else None

    def cancel(self, number: int) -> None:
        if self._show_job(number):
            super().cancel(number)

    def options(self, header: Mapping[str, SbatchOption]) -> tuple[str, ...]:
        """Return the comment: the script's own, followed by the run's mark."""
        script_comment = header["--comment"].value + " " if "--comment" in header else ""
        return (f"--comment={script_comment}{self.mark}",)

    def accepts_variable(self, variable: str) -> bool:
        return bool(_SITE_VARIABLES.match(variable)) or not _SLURM_VARIABLES.match(variable)

    @property
    def command_env(self) -> Mapping[str, str]:
        """The settings that were looked at, and no other ones that a job's environment names."""
        return {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}

    # -- inside ------------------------------------------------------------------------------

    def _change_job(self, number: int, *words: str) -> None:
        """Do something to a job, if it is the run's own; raises `HarnessError` if it is not."""
        if not self._show_job(number):
            raise HarnessError(f"Slurm shows no job {number}, and nothing was done to it")
        super()._change_job(number, *words)

    def _show_job(self, number: int) -> str:
        """Return what Slurm shows of a job; raises `HarnessError` if it is not the run's own."""
        description = super()._show_job(number)
        if description and not ending.is_own(description, mark=self.mark, uid=os.getuid()):
            raise HarnessError(f"job {number} is not the run's own, and nothing was done to it")
        return description

    def _find_partitions(self, header: Mapping[str, SbatchOption]) -> frozenset[str]:
        """Return the partitions that the job may be in: by the environment, its header, or all."""
        names = header["--partition"].value if "--partition" in header else ""
        names = self.env.get("SBATCH_PARTITION", names) or parse_default_partition(
            _run_command("scontrol", "show", "partition", "-o")
        )
        return frozenset(filter(None, names.split(",")))


def find_cluster_nodes(address: str) -> list[NodeFacts]:
    """Return the nodes of the Slurm at an address, each with its partitions.

    Raises `ClusterError` if Slurm's commands find none on this machine, or another one.
    """
    if missing := find_missing_slurm(COMMANDS):
        raise UnmetNeedError(
            f"the job needs Slurm, and no `{missing[0]}` is found here", INSTALL_HINT
        )
    settings = dict(re.findall(r"(?m)^(\S+)\s*= (.*)$", _run_command("scontrol", "show", "config")))
    controllers = parse_addresses(settings)
    if address not in controllers:
        raise ClusterError(
            f"cluster.address is {address}, and Slurm's commands here ask {controllers[0]}",
            "The commands follow SLURM_CONF, or /etc/slurm/slurm.conf.",
        )
    return parse_nodes(_run_command("scontrol", "show", "node", "-o"), socket.gethostname())


def parse_addresses(settings: Mapping[str, str]) -> list[str]:
    """Return the addresses of a Slurm's controllers, by the settings that scontrol shows.

    Each has a name, and may have an address: `SlurmctldHost[0] = head(10.0.0.1)`.
    """
    port = settings.get("SlurmctldPort", "").partition("-")[0]  # of several the first
    hosts = [value for name, value in settings.items() if name.startswith("SlurmctldHost[")]
    return [f"{address}:{port}" for host in hosts for address in re.findall(r"[^()\s]+", host)]


def parse_nodes(text: str, hostname: str) -> list[NodeFacts]:
    """Return the nodes that `scontrol show node -o` lists; `hostname` is this host's name."""
    nodes = []
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if "NodeName" in fields:
            host = fields.get("NodeHostName", "")
            nodes.append(
                NodeFacts(
                    node_id=fields["NodeName"],
                    address=fields.get("NodeAddr", ""),
                    cpus=float(fields.get("CPUTot", 0)),
                    hostname=host,
                    is_own=host.partition(".")[0] == hostname.partition(".")[0],
                    partitions=frozenset(fields.get("Partitions", "").split(",")),
                )
            )
    return nodes


def parse_default_partition(text: str) -> str:
    """Return the partition of jobs that name none; nothing where there is none."""
    match = re.search(r"(?m)^PartitionName=(\S+) .*\bDefault=YES\b", text)
    return "" if match is None else match[1]


def require_local_nodes(nodes: Sequence[NodeFacts], partitions: frozenset[str]) -> None:
    """Raise `ClusterError` where the job may come onto a node that is not this host.

    Its processes ask chaos over a socket of this host, and chaos sends signals to them by pid.
    """
    job_nodes = [node for node in nodes if not partitions or node.partitions & partitions]
    remote_node = next((node for node in job_nodes if not node.is_own), None)
    if remote_node is not None:
        names = f" (partition {', '.join(sorted(partitions))})" if partitions else ""
        raise ClusterError(
            f"the job may come onto node {remote_node.node_id} on host "
            f"{remote_node.hostname}{names}, and its processes have to be on the host of chaos",
            "Run chaos on that host, with a partition that has no node of another one "
            "(`#SBATCH --partition`, or SBATCH_PARTITION).",
        )


def _run_command(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{words[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
