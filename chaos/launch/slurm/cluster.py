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
from chaos.launch.slurm.client import Slurm
from chaos.launch.slurm.header import COUNT, Wanted
from chaos.model.event import JobAccounted
from chaos.run import leavings
from chaos.run.clock import Clock, seconds_since
from chaos.run.machine import SLURM_BY, lacking_of_slurm, with_sbin
from chaos.run.sbatch_header import Option

HOW = f"On Debian and Ubuntu: {SLURM_BY}."
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
    wanted: Wanted = field(default=Wanted())
    #: its sockets, its state and its settings, which end with it
    folder: Path = field(init=False)
    _daemons: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    def start(self) -> None:
        """Start the daemons, and wait until the nodes are idle.

        Raises `UnmetNeedError` where Slurm is not installed, `HarnessError` if it does not come up.
        """
        if missing := lacking_of_slurm():
            raise UnmetNeedError(f"the job needs Slurm, and no `{missing[0]}` is found here", HOW)
        # A socket's path has a hundred characters at most, which a folder of reports may have.
        leavings.sweep()  # folders that killed harnesses have left behind
        self.folder = leavings.make("chaos-slurm-")
        leavings.attend(self.folder)
        self.log.mkdir(parents=True, exist_ok=True)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._conf.write_text(self._written(), encoding="utf-8")
        self._write_gpus()
        where = self.folder
        self._daemon(
            "munged", "munged", "-F", "--force", f"--key-file={key}",
            f"--socket={where}/munge.socket", f"--pid-file={where}/munged.pid",
            f"--log-file={where}/munged.log", f"--seed-file={where}/munge.seed",
        )  # fmt: skip
        self._until((where / "munge.socket").exists, "munged has no socket")
        self._daemon(_CONTROLLER, _CONTROLLER, "-D", "-i", "-f", str(self._conf))
        for number in range(self.nodes):
            self.start_node(f"node-{number}")
        wanted = {f"node-{number}" for number in range(self.nodes)}
        self._until(lambda: wanted <= self.idle(), "its nodes do not come up")

    def stop(self) -> None:
        """End the daemons, the last one first, and remove their files."""
        with contextlib.ExitStack() as closing:
            if hasattr(self, "folder"):
                # The steps of a job outlive their slurmd. They write its log, and so belong to the
                # folder, with which they end.
                closing.callback(leavings.remove, self.folder, with_writers=True)
                closing.callback(self._keep_logs)
            for daemon in self._daemons.values():
                closing.callback(_end, daemon)

    def _keep_logs(self) -> None:
        for file in self.folder.glob("slurmd-*.log"):
            shutil.copy(file, self.log)

    def start_node(self, node: str) -> None:
        """Start the daemon of a node."""
        self._daemon(node, "slurmd", "-D", "-f", str(self._conf), "-N", node)

    def pid_of(self, daemon: str) -> int:
        """Return the pid of a node's daemon, of `slurmctld`, or of `munged`."""
        return self._daemons[daemon].pid

    def log_of(self, node: str) -> str:
        """Return the log of a node's daemon, which the steps on the node hold open."""
        return str(self.folder / f"slurmd-{node}.log")

    # -- what is asked of it -----------------------------------------------------------------

    def restarts_of(self, number: int) -> int:
        """Return how often a job was requeued; raises `HarnessError` if Slurm does not tell."""
        seen = self.job(number)
        if seen is None:
            raise HarnessError(f"slurmctld says nothing of job {number}; see {self.log}")
        return seen.restarts

    def idle(self) -> set[str]:
        """Return the nodes on which nothing runs."""
        return {node for node, state in self._states().items() if state == "IDLE"}

    def is_down(self, node: str) -> bool:
        """Return whether Slurm counts a node as down."""
        return self._states().get(node, "").startswith("DOWN")

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
        self._must("scontrol", "reconfigure")

    def drained(self) -> str | None:
        """Return a node that takes no job until it is given back; None if no prolog has failed."""
        states = self._states() if self._failed_prolog.exists() else {}
        return next((node for node in states if "DRAIN" in states[node]), None)

    def repair(self, node: str) -> None:
        """Return a drained node to service."""
        self._must("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def accounts(self, number: int) -> list[JobAccounted]:
        there = self._accounts.exists()
        return accounted(self._accounts.read_text(errors="replace") if there else "", number)

    def limit_time(self, number: int) -> None:
        """Set a job's time limit to the least that Slurm has, a minute."""
        self._must("scontrol", "update", f"JobId={number}", "TimeLimit=1")

    def stop_controller(self) -> int:
        """End slurmctld by SIGTERM, on which it saves its state; return its pid."""
        gone = self._daemons[_CONTROLLER]
        _end(gone)
        return gone.pid

    def start_controller(self, *, within_s: float) -> int | None:
        """Start slurmctld with what it has saved; return its pid once it answers, None if late."""
        self._daemon(_CONTROLLER, _CONTROLLER, "-D", "-f", str(self._conf))
        begun_ns = self.clock.now_ns()
        while self._call("scontrol", "ping").returncode:
            if seconds_since(begun_ns, self.clock) > within_s:
                return None
            self.clock.sleep(POLL_S)
        return self.pid_of(_CONTROLLER)

    def preempt(self, node: str, *, grace_s: int, for_s: float) -> None:
        """Submit a job of the urgent partition that takes a node for some seconds."""
        for name in self._partitions:
            self._must("scontrol", "update", f"PartitionName={name}", f"GraceTime={grace_s}")
        wrapped = f"--wrap=sleep {for_s:g}"
        self._must(
            "sbatch", "--parsable", f"--partition={HIGH}", f"--nodelist={node}", "--exclusive",
            f"--output={self.folder}/urgent.log", wrapped,
        )  # fmt: skip

    def options(self, given: Mapping[str, Option]) -> tuple[str, ...]:
        del given
        return (f"--partition={','.join(self._partitions)}",)

    @property
    def own_env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self._conf), leavings.HELD_ENV: str(self.folder)}

    # -- inside ------------------------------------------------------------------------------

    @property
    def _partitions(self) -> tuple[str, ...]:
        return self.wanted.partitions or (LOW,)

    @property
    def _conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def _failed_prolog(self) -> Path:
        return self.folder / "prolog-failed"

    @property
    def _accounts(self) -> Path:
        return self.log / "accounts.log"

    def _states(self) -> dict[str, str]:
        done = self._call("scontrol", "show", "node", "-o")
        return dict(re.findall(r"(?m)^NodeName=(\S+) .*?\bState=([A-Z+]+)", done.stdout))

    def _daemon(self, name: str, *words: str) -> None:
        """Start a daemon, which ends with the cluster's folder, also where chaos is killed."""
        with (self.log / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [str(shutil.which(words[0], path=with_sbin())), *words[1:]],
                env={**os.environ, **self.own_env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        begun_ns = self.clock.now_ns()
        while not is_so():
            gone = next((n for n, one in self._daemons.items() if one.poll() is not None), None)
            if gone is not None or seconds_since(begun_ns, self.clock) > READY_S:
                what = f"{gone} has ended" if gone else what
                raise HarnessError(f"the local Slurm does not start: {what}; see {self.log}")
            self.clock.sleep(POLL_S)

    def _write_gpus(self) -> None:
        """Write the GPUs that Slurm is to count: each needs a file, which is none of a device's."""
        lines, folder = [], self.folder / "gpus"
        folder.mkdir()
        for number, kind in enumerate(self.wanted.gpus):
            first, last = number * COUNT, (number + 1) * COUNT - 1
            for index in range(first, last + 1):
                (folder / f"gpu{index}").touch()
            named = f"Type={kind} " if kind else ""
            files = f"File={folder}/gpu[{first}-{last}]"
            lines.append(f"Name=gpu {named}{files} Flags=no_gpu_env\n")
        (self.folder / "gres.conf").write_text("".join(lines), encoding="utf-8")

    def _written(self) -> str:
        host, where = socket.gethostname().partition(".")[0], self.folder
        ports = _free_ports(1 + self.nodes + SPARES)
        last = self.nodes + SPARES - 1
        every = ",".join(str(port) for port in ports[1:])
        has = self.wanted.of_a_node(_memory())
        gres = "GresTypes=gpu\n" if self.wanted.gpus else ""
        low = "\n".join(
            f"PartitionName={name} Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1"
            for name in self._partitions
        )
        return f"""\
{gres}ClusterName=chaos
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={where}/munge.socket,cred_expire={CREDENTIAL_S}
SlurmUser={_user()}
SlurmdUser={_user()}
StateSaveLocation={where}/state
SlurmdSpoolDir={where}/spool-%n
SlurmctldPidFile={where}/slurmctld.pid
SlurmdPidFile={where}/slurmd-%n.pid
SlurmctldLogFile={self.log}/slurmctld.log
SlurmdLogFile={where}/slurmd-%n.log
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
NodeName=node-[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port={every} \
CPUs={self.cpus} Sockets=1 CoresPerSocket={self.cpus} ThreadsPerCore=1 State=UNKNOWN {has}
{low}
PartitionName={HIGH} Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def _memory() -> int:
    return int(psutil.virtual_memory().total / 1024**2)


def accounted(text: str, number: int) -> list[JobAccounted]:
    """Return the starts of a job that have ended, by the lines of `jobcomp/filetxt`, in order.

    `sacct -c -f` reads the same file (Slurm 22.05). Its times are whole seconds of the local clock.
    """
    lines = (dict(_FIELD.findall(line)) for line in text.splitlines())
    own = [line for line in lines if line.get("JobId") == str(number) and "ExitCode" in line]
    return [_start(position, line) for position, line in enumerate(own)]


def _start(position: int, line: dict[str, str]) -> JobAccounted:
    code, _, signal = line["ExitCode"].partition(":")
    return JobAccounted(
        start=position,
        state=line["JobState"],
        ran_s=_between(line["StartTime"], line["EndTime"]),
        code=int(code),
        signal=int(signal or 0),
        nodes=line["NodeList"],
    )


def _between(began: str, ended: str) -> float | None:
    try:
        ran = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:  # `Unknown`, or `None`: it was never started
        return None
    return ran.total_seconds()


def _user() -> str:
    return getpass.getuser()


def _end(daemon: "subprocess.Popen[bytes]") -> None:
    daemon.terminate()
    try:
        daemon.wait(END_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
