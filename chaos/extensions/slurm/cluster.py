"""A Slurm of one run: munged, slurmctld, and a slurmd for each node, on this machine.

All daemons run in the foreground.
"""

import contextlib
import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil

from chaos.errors import HarnessError, UnmetNeedError
from chaos.extensions.sbatch_header import SbatchOption
from chaos.extensions.slurm.client import Slurm
from chaos.extensions.slurm.header import COUNT, HeaderNeeds
from chaos.extensions.slurm.programs import INSTALLED_BY, find_missing_slurm
from chaos.model.event import JobAccounted
from chaos.run import held_folders
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.machine import build_sbin_path

INSTALL_HINT = f"On Debian and Ubuntu: {INSTALLED_BY}."
READY_S, END_S, POLL_S = 30.0, 5.0, 0.05
SPARES = 4  # nodes that are declared, and whose daemons are started only where a fault adds them
# The job's partition, if its script names none, and the one whose jobs preempt it.
LOW, HIGH = "chaos", "chaos-urgent"
# Slurm takes no shorter life of a credential: a job that is requeued waits for it to be over.
CREDENTIAL_S = 5
_CONTROLLER = "slurmctld"
_FIELD = re.compile(r"(\w+)=(\S*)")  # of a line of accounts


@dataclass
class SlurmCluster(Slurm):
    """The daemons of one run; `start` starts them, and `stop` ends them and removes their files."""

    nodes: int
    cpus: int
    log: Path
    clock: Clock
    #: a node without a sign for so long is down
    silent_s: int = 5
    #: what becomes of a job whose nodes one of higher priority takes
    preempt_mode: str = "requeue"
    #: what the script's header wants of it
    needs: HeaderNeeds = field(default=HeaderNeeds())
    #: its sockets, its state and its settings, which end with it
    folder: Path = field(init=False)
    _daemons: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    def start(self) -> None:
        """Start the daemons, and wait until the nodes are idle.

        Raises `UnmetNeedError` where Slurm is not installed, `HarnessError` if it does not come up.
        """
        if missing := find_missing_slurm():
            raise UnmetNeedError(
                f"the job needs Slurm, and no `{missing[0]}` is found here", INSTALL_HINT
            )
        # A socket's path has a hundred characters at most, which a folder of reports may have.
        held_folders.sweep()  # folders that killed harnesses have left behind
        self.folder = held_folders.make("chaos-slurm-")
        held_folders.start_attendant(self.folder)
        self.log.mkdir(parents=True, exist_ok=True)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._conf.write_text(self._build_conf(), encoding="utf-8")
        self._write_gpus()
        folder = self.folder
        self._start_daemon(
            "munged", "munged", "-F", "--force", f"--key-file={key}",
            f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        self._await_ready((folder / "munge.socket").exists, "munged has no socket")
        self._start_daemon(_CONTROLLER, _CONTROLLER, "-D", "-i", "-f", str(self._conf))
        for number in range(self.nodes):
            self.start_node(f"node-{number}")
        starting_nodes = {f"node-{number}" for number in range(self.nodes)}
        self._await_ready(
            lambda: starting_nodes <= self.find_idle_nodes(), "its nodes do not come up"
        )

    def stop(self) -> None:
        """End the daemons, the last one first, and remove their files."""
        with contextlib.ExitStack() as closing:
            if hasattr(self, "folder"):
                # The steps of a job outlive their slurmd. They write its log, and so belong to the
                # folder, with which they end.
                closing.callback(held_folders.remove, self.folder, with_writers=True)
                closing.callback(self._keep_logs)
            for daemon in self._daemons.values():
                closing.callback(_end, daemon)

    def _keep_logs(self) -> None:
        for file in self.folder.glob("slurmd-*.log"):
            shutil.copy(file, self.log)

    def start_node(self, node: str) -> None:
        """Start the daemon of a node."""
        self._start_daemon(node, "slurmd", "-D", "-f", str(self._conf), "-N", node)

    def find_pid(self, daemon: str) -> int:
        """Return the pid of a node's daemon, of `slurmctld`, or of `munged`."""
        return self._daemons[daemon].pid

    def find_log(self, node: str) -> str:
        """Return the log of a node's daemon, which the steps on the node hold open."""
        return str(self.folder / f"slurmd-{node}.log")

    # -- what is asked of it -----------------------------------------------------------------

    def count_restarts(self, number: int) -> int:
        """Return how often a job was requeued; raises `HarnessError` if Slurm does not tell."""
        state = self.job(number)
        if state is None:
            raise HarnessError(f"slurmctld says nothing of job {number}; see {self.log}")
        return state.restarts

    def find_idle_nodes(self) -> set[str]:
        """Return the nodes on which nothing runs."""
        return {node for node, state in self._list_node_states().items() if state == "IDLE"}

    def is_down(self, node: str) -> bool:
        """Return whether Slurm counts a node as down."""
        return self._list_node_states().get(node, "").startswith("DOWN")

    def fail_prolog(self) -> None:
        """Make the next prolog fail, on whatever node; those after it succeed."""
        prolog, failing = self.folder / "prolog", self.folder / "prolog-fails"
        self._failed_prolog.unlink(missing_ok=True)
        failing.touch()
        # One of several nodes takes the file.
        moved = shlex.join(["mv", str(failing), str(self._failed_prolog)])
        prolog.write_text(f"#!/bin/sh\n! {moved} 2>/dev/null\n", encoding="utf-8")
        prolog.chmod(0o755)
        with self._conf.open("a", encoding="utf-8") as conf:
            conf.write(f"Prolog={prolog}\n")
        self._call_checked("scontrol", "reconfigure")

    def find_drained_node(self) -> str | None:
        """Return a node that takes no job until it is given back; None if no prolog has failed."""
        states = self._list_node_states() if self._failed_prolog.exists() else {}
        return next((node for node in states if "DRAIN" in states[node]), None)

    def repair(self, node: str) -> None:
        """Return a drained node to service."""
        self._call_checked("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def list_accounts(self, number: int) -> list[JobAccounted]:
        is_written = self._accounts.exists()
        return parse_accounts(
            self._accounts.read_text(errors="replace") if is_written else "", number
        )

    def limit_time(self, number: int) -> None:
        """Set a job's time limit to the least that Slurm has, a minute."""
        self._call_checked("scontrol", "update", f"JobId={number}", "TimeLimit=1")

    def stop_controller(self) -> int:
        """End slurmctld by SIGTERM, on which it saves its state; return its pid."""
        daemon = self._daemons[_CONTROLLER]
        _end(daemon)
        return daemon.pid

    def start_controller(self, *, within_s: float) -> int | None:
        """Start slurmctld with what it has saved; return its pid once it answers, None if late."""
        self._start_daemon(_CONTROLLER, _CONTROLLER, "-D", "-f", str(self._conf))
        start_ns = self.clock.now_ns()
        while self._call("scontrol", "ping").returncode:
            if elapsed_seconds(start_ns, self.clock) > within_s:
                return None
            self.clock.sleep(POLL_S)
        return self.find_pid(_CONTROLLER)

    def preempt(self, node: str, *, grace_s: int, for_s: float) -> None:
        """Submit a job of the urgent partition that takes a node for some seconds."""
        for name in self._partitions:
            self._call_checked(
                "scontrol", "update", f"PartitionName={name}", f"GraceTime={grace_s}"
            )
        wrapped = f"--wrap=sleep {for_s:g}"
        self._call_checked(
            "sbatch", "--parsable", f"--partition={HIGH}", f"--nodelist={node}", "--exclusive",
            f"--output={self.folder}/urgent.log", wrapped,
        )  # fmt: skip

    def options(self, header: Mapping[str, SbatchOption]) -> tuple[str, ...]:
        del header
        return (f"--partition={','.join(self._partitions)}",)

    @property
    def command_env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self._conf), held_folders.HELD_ENV: str(self.folder)}

    # -- inside ------------------------------------------------------------------------------

    @property
    def _partitions(self) -> tuple[str, ...]:
        return self.needs.partitions or (LOW,)

    @property
    def _conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def _failed_prolog(self) -> Path:
        return self.folder / "prolog-failed"

    @property
    def _accounts(self) -> Path:
        return self.log / "accounts.log"

    def _list_node_states(self) -> dict[str, str]:
        done = self._call("scontrol", "show", "node", "-o")
        return dict(re.findall(r"(?m)^NodeName=(\S+) .*?\bState=([A-Z+]+)", done.stdout))

    def _start_daemon(self, name: str, *words: str) -> None:
        """Start a daemon, which ends with the cluster's folder, also where chaos is killed."""
        with (self.log / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [str(shutil.which(words[0], path=build_sbin_path())), *words[1:]],
                env={**os.environ, **self.command_env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _await_ready(self, is_ready: Callable[[], bool], problem: str) -> None:
        start_ns = self.clock.now_ns()
        while not is_ready():
            ended_daemon = next(
                (name for name, daemon in self._daemons.items() if daemon.poll() is not None), None
            )
            if ended_daemon is not None or elapsed_seconds(start_ns, self.clock) > READY_S:
                problem = f"{ended_daemon} has ended" if ended_daemon else problem
                raise HarnessError(f"the local Slurm does not start: {problem}; see {self.log}")
            self.clock.sleep(POLL_S)

    def _write_gpus(self) -> None:
        """Write the GPUs that Slurm is to count: each needs a file, which is none of a device's."""
        lines, folder = [], self.folder / "gpus"
        folder.mkdir()
        for number, kind in enumerate(self.needs.gpus):
            first, last = number * COUNT, (number + 1) * COUNT - 1
            for index in range(first, last + 1):
                (folder / f"gpu{index}").touch()
            type_field = f"Type={kind} " if kind else ""
            files = f"File={folder}/gpu[{first}-{last}]"
            lines.append(f"Name=gpu {type_field}{files} Flags=no_gpu_env\n")
        (self.folder / "gres.conf").write_text("".join(lines), encoding="utf-8")

    def _build_conf(self) -> str:
        host, folder = socket.gethostname().partition(".")[0], self.folder
        ports = _find_free_ports(1 + self.nodes + SPARES)
        last_index = self.nodes + SPARES - 1
        node_ports = ",".join(str(port) for port in ports[1:])
        node_parameters = self.needs.build_node_parameters(_memory())
        gres = "GresTypes=gpu\n" if self.needs.gpus else ""
        partition_lines = "\n".join(
            f"PartitionName={name} Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1"
            for name in self._partitions
        )
        return f"""\
{gres}ClusterName=chaos
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={CREDENTIAL_S}
SlurmUser={_user()}
SlurmdUser={_user()}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={self.log}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode={self.preempt_mode.upper()}
JobRequeue=1
KillWait=5
TreeWidth=65533
MessageTimeout=5
MinJobAge=3600
JobCompType=jobcomp/filetxt
JobCompLoc={self._accounts}
SlurmdTimeout={self.silent_s}
NodeName=node-[0-{last_index}] NodeHostname={host} NodeAddr=127.0.0.1 Port={node_ports} \
CPUs={self.cpus} Sockets=1 CoresPerSocket={self.cpus} ThreadsPerCore=1 State=UNKNOWN \
{node_parameters}
{partition_lines}
PartitionName={HIGH} Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def _memory() -> int:
    return int(psutil.virtual_memory().total / 1024**2)


def parse_accounts(text: str, number: int) -> list[JobAccounted]:
    """Return the starts of a job that have ended, by the lines of `jobcomp/filetxt`, in order.

    `sacct -c -f` reads the same file (Slurm 22.05). Its times are whole seconds of the local clock.
    """
    lines = (dict(_FIELD.findall(line)) for line in text.splitlines())
    job_lines = [line for line in lines if line.get("JobId") == str(number) and "ExitCode" in line]
    return [_build_account(position, line) for position, line in enumerate(job_lines)]


def _build_account(position: int, line: dict[str, str]) -> JobAccounted:
    code, _, signal = line["ExitCode"].partition(":")
    return JobAccounted(
        start=position,
        state=line["JobState"],
        ran_s=_compute_duration(line["StartTime"], line["EndTime"]),
        code=int(code),
        signal=int(signal or 0),
        nodes=line["NodeList"],
    )


def _compute_duration(began: str, ended: str) -> float | None:
    try:
        duration = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:  # `Unknown`, or `None`: it was never started
        return None
    return duration.total_seconds()


def _user() -> str:
    return getpass.getuser()


def _end(daemon: "subprocess.Popen[bytes]") -> None:
    daemon.terminate()
    try:
        daemon.wait(END_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _find_free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
