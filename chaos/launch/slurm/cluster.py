"""A Slurm of one run: munged, slurmctld, and a slurmd for each node, on this machine.

Seen with slurm-wlm 22.05 of Debian. All daemons run in the foreground.
"""

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.errors import HarnessError, UnmetNeedError, UsageError
from chaos.run import leavings
from chaos.run.clock import Clock, seconds_since
from chaos.run.machine import SLURM_BY, lacking_of_slurm, with_sbin
from chaos.run.sbatch_header import options_in

HOW = f"On Debian and Ubuntu: {SLURM_BY}."
READY_S, END_S, POLL_S = 30.0, 5.0, 0.05
SPARES = 4  # nodes that are declared, and whose daemons are started only where a fault adds them
LOW, HIGH = "chaos", "urgent"  # the job's partition, and the one whose jobs preempt it
# Slurm takes no shorter life of a credential: a job that is requeued waits for it to be over.
CREDENTIAL_S = 5
_CONTROLLER = "slurmctld"
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

    @property
    def has_ended(self) -> bool:
        return self.state not in _GOES_ON

    @property
    def has_nodes(self) -> bool:
        """Whether its processes may still be on its nodes."""
        return self.state in _ON_NODES


_ON_NODES = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED")
_GOES_ON = (*_ON_NODES, "PENDING", "REQUEUED")


@dataclass
class SlurmCluster:
    """The daemons of one run; `start` starts them, and `stop` ends them and removes their files."""

    nodes: int
    cpus: int
    log: Path
    clock: Clock
    #: a node without a sign for so long is down
    silent_s: int = 5
    #: what becomes of a job whose nodes one of higher priority takes
    preempt_mode: str = "requeue"
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

    def submit(
        self, words: Sequence[str], env: Mapping[str, str], cwd: str, log: Path, *, is_own: bool
    ) -> int:
        """Submit a script with its arguments; return the job's number.

        Its output goes to `log`, unless the script names a file; with `is_own` also then.
        Raises `UsageError` with sbatch's words if it does not take the script.
        """
        own: tuple[str, ...] = ("--parsable", "--export=ALL", f"--partition={LOW}")
        given = options_in(Path(words[0]).read_text(encoding="utf-8", errors="replace"))
        if is_own or "--output" not in given:
            own = (*own, f"--output={log}")
        if is_own and given.keys() & {"--error", "-e"}:
            own = (*own, f"--error={log}")
        kept = {name: value for name, value in env.items() if not _ENV.match(name)}
        done = self._call("sbatch", *own, *words, env=kept, cwd=cwd)
        if done.returncode or not done.stdout.strip().isdigit():
            text = done.stderr.strip().removeprefix("sbatch: error: ") or done.stdout.strip()
            raise UsageError(f"sbatch: {text}", "Is it a script for sbatch?", place=words[0])
        return int(done.stdout)

    def job(self, number: int) -> JobState | None:
        """Return the state of a job; None if Slurm does not answer now."""
        done = self._call("scontrol", "show", "job", "-o", str(number))
        told = dict(re.findall(r"(\w+)=(\S*)", done.stdout))
        if done.returncode or "JobState" not in told:
            return None
        code, _, signal = told["ExitCode"].partition(":")
        return JobState(
            state=told["JobState"],
            restarts=int(told["Restarts"]),
            is_preempted=told.get("PreemptTime", "None") != "None",
            code=int(code),
            signal=int(signal),
        )

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

    def control(self, verb: str, number: int) -> None:
        """Requeue, hold, release, suspend or resume a job, as an operator does.

        Raises `HarnessError` if Slurm refuses.
        """
        self._must("scontrol", verb, str(number))

    def limit_time(self, number: int) -> None:
        """Set a job's time limit to the least that Slurm has, a minute."""
        self._must("scontrol", "update", f"JobId={number}", "TimeLimit=1")

    def signal(self, number: int, name: str, *, to_batch: bool) -> None:
        """Send a signal to a job's steps, or to its batch shell alone."""
        self._must("scancel", f"--signal={name}", *(["--batch"] if to_batch else []), str(number))

    def sent(self, number: int, *, to_batch: bool) -> int:
        """Return how often nodes have sent a signal to steps, or to a batch shell, by their logs.

        As slurmstepd 22.05 has it: `Sent signal 10 to StepId=1.0`, `sent signal 10 to pid 332
        StepId=1.batch`.
        """
        to = r"pid \d+ StepId=\d+\.batch" if to_batch else r"StepId=\d+\.\d+"
        logs = (file.read_text(errors="replace") for file in self.folder.glob("slurmd-*.log"))
        return sum(len(re.findall(rf"[Ss]ent signal {number} to {to}", log)) for log in logs)

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
        self._must("scontrol", "update", f"PartitionName={LOW}", f"GraceTime={grace_s}")
        wrapped = f"--wrap=sleep {for_s:g}"
        self._must(
            "sbatch", "--parsable", f"--partition={HIGH}", f"--nodelist={node}", "--exclusive",
            f"--output={self.folder}/urgent.log", wrapped,
        )  # fmt: skip

    def cancel(self, number: int) -> None:
        """Cancel a job, if it is still there."""
        self._call("scancel", str(number))

    # -- inside ------------------------------------------------------------------------------

    @property
    def _conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def _own_env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self._conf), leavings.HELD_ENV: str(self.folder)}

    def _states(self) -> dict[str, str]:
        done = self._call("scontrol", "show", "node", "-o")
        return dict(re.findall(r"(?m)^NodeName=(\S+) .*?\bState=([A-Z]+)", done.stdout))

    def _must(self, *words: str) -> None:
        done = self._call(*words)
        if done.returncode:
            raise HarnessError(f"{words[0]}: {done.stderr.strip() or done.stdout.strip()}")

    def _call(
        self, *words: str, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words,
            env={**(os.environ if env is None else env), **self._own_env},
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    def _daemon(self, name: str, *words: str) -> None:
        """Start a daemon, which ends with the cluster's folder, also where chaos is killed."""
        with (self.log / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                [str(shutil.which(words[0], path=with_sbin())), *words[1:]],
                env={**os.environ, **self._own_env},
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

    def _written(self) -> str:
        host, where = socket.gethostname().partition(".")[0], self.folder
        ports = _free_ports(1 + self.nodes + SPARES)
        last = self.nodes + SPARES - 1
        every = ",".join(str(port) for port in ports[1:])
        return f"""\
ClusterName=chaos
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
SlurmdTimeout={self.silent_s}
NodeName=node-[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port={every} \
CPUs={self.cpus} Sockets=1 CoresPerSocket={self.cpus} ThreadsPerCore=1 State=UNKNOWN
PartitionName={LOW} Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName={HIGH} Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


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
