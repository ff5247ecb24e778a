"""The facts and words of a launcher, from which plans, checks, reports and commands read.

A launcher starts a job's workers, and starts them again after a failure. Nothing but its own folder
asks which launcher a job has; everything else asks for a fact, or its policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias

from chaos.faults.world import LauncherFeature

#: Who begins again after a failure: the launcher by its own retries, or who started its command.
Restart: TypeAlias = Literal["launcher", "command"]
#: Who counts the restarts against the retry budget: one for the job, each agent for itself, or
#: chaos, over all starts of the command.
Counter: TypeAlias = Literal["controller", "each agent", "chaos"]
#: The variables that torchrun sets for each worker (torch 2.13), and nothing for a plain command.
WORKER_ENV = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})

#: The fields of a scenario's `job` that are Ray Train's alone.
OF_RAY = ("train_loop", "checkpoint", "trial", "fit", "epoch_metric", "needs_backend")
#: Those that are Slurm's alone.
OF_SLURM = ("then", "array_task")


@dataclass(frozen=True)
class LauncherWords:
    """The words of a launcher, for sentences: the same promise is kept by other means."""

    #: The launcher itself; what its version is of.
    name: str
    product: str
    #: Who starts the workers again.
    controller: str
    #: What starts the training, and raises in the end if it failed.
    call: str
    #: What training is over with.
    training_end: str
    #: The process that makes the call.
    driver: str
    #: When its settings are in force.
    settings_phrase: str
    #: The restarts that a scenario allows.
    retries: str
    #: The point that a restart continues from; its verb; all that may be continued from. These,
    #: and those below, are of a job that saves files of its own.
    save: str = "save"
    saved_verb: str = "saved"
    complete_saves: str = "whole files"
    #: An epoch that such a point has ended, and the place that a state snapshot has there.
    epoch_ended_verb: str = "ended by a save"
    end_of_epoch: str = "the end of epoch"
    #: What a worker does that leads to such a point.
    save_action: str = "save"
    #: What the call does where the training failed, before the failure's name.
    failure_verb: str = "raised"
    #: A training that returned, with its checkpoint; one whose worker ended, if a script's error is
    #: not the reason.
    return_text: str = "{call} ended: every worker returned"
    worker_failure: str = ""
    #: An audit's sentence on an attempt that has ended in a save.
    interrupted_save: str = "a rank was killed where it"
    #: An attempt that resumed from no save.
    without_save: str = ""
    #: Where a save is looked for.
    save_scope: str = ""
    #: That the script has not come to the call.
    before_call: str = ""
    #: What is excluded of a start where workers are forked.
    forked_start: str = ", where workers are forked and import no torch as they start"
    #: What an audit says of a job that saves files of its own, of one that is preempted without a
    #: grace, and of one whose faults were not tried on a cluster.
    own_saves_remark: str = ""
    missing_grace: str = ""
    untried_cluster: str = ""
    #: A line of a scenario that is written from a guarded training.
    incident_comment: str = ""
    #: The need for it, in the place of its name, and the condition of that.
    need: str = ""
    need_condition: str = ""
    #: What a script for it is, if that is no Python script; how that shows, and what takes it.
    script_kind: str = ""
    script_evidence: str = ""
    script_hint: str = ""

    def describe_failure(self, error: str) -> str:
        """Return in words that the training failed, with the failure's name."""
        return f"{self.call} {self.failure_verb} {error}"

    def describe_run_failure(self, error: str) -> str:
        """Return in words why a run failed: a worker's end, where the error names no reason."""
        return self.worker_failure or self.describe_failure(error)

    def describe_return(self, checkpoint: str | None) -> str:
        """Return in words that the training was over and well."""
        return self.return_text.format(call=self.call, checkpoint=checkpoint or "none")

    def describe_place(self, epoch: int, step: int, moment: str) -> str:
        """Return in words the place of a state snapshot."""
        return f"{self.end_of_epoch} {epoch}" if moment == "left" else f"epoch {epoch}, step {step}"


@dataclass(frozen=True)
class RetryRules:
    """The counting of restarts: by whom, and against which budgets."""

    #: The retry budgets that it knows, and the setting that each kind of failure is charged to.
    budgets: tuple[str, ...]
    settings: Mapping[str, str]
    counted_by: Counter
    #: Whence an audit has a job's retries, if not from its settings.
    source: Literal["assumed", "queue"] | None = "assumed"


@dataclass(frozen=True)
class NodeRules:
    """The fate of a job whose node is lost."""

    #: Nodes hold workers by their CPUs, and there is a spare one for each that is lost. Else each
    #: node has an agent with as many workers, and another one comes for one that is lost.
    has_spares: bool = False
    #: A job has one node; if that is lost, the next start of the command is on another one.
    restarts_elsewhere: bool = False
    #: A node that is announced to go is given to another job, and comes back after it.
    returns_preempted: bool = False
    #: Workers on other nodes that have ended well are started again with those that have not.
    restarts_ended_workers: bool = False
    #: The CPUs of a node in an audit: as many as a script may ask for.
    cpus: int = 1
    #: Why a fault may never cost a node of a cluster that chaos did not start.
    shared_loss_refusal: str = ""


@dataclass(frozen=True)
class WorkerRules:
    """The number of workers, and who states it."""

    #: The script itself states it; how many there are until it is seen.
    script_sets_count: bool
    default_count: int


@dataclass(frozen=True)
class FieldRules:
    """The fields of scenarios and requests that its jobs have."""

    #: Those of a scenario's `cluster` that it has, and of `job` that it does not have.
    cluster: tuple[str, ...]
    missing_job: tuple[str, ...]
    #: Those of an audit's request that it takes, beside those for every launcher's jobs.
    audit: tuple[str, ...]
    #: Why it does not have a field of `job`, where that is for a reason of its own.
    job_problems: Mapping[str, str] = field(default_factory=dict)
    #: Why it refuses fields that other launchers' jobs may have, and what to do instead.
    restart_refusal: str = ""
    restart_hint: str = ""


@dataclass(frozen=True)
class TimeRules:
    """The times that it takes by itself."""

    #: The longest until the workers of an attempt have ended, and until agents have met again: no
    #: limit of chaos's may come before.
    shutdown_s: float = 0.0
    meeting_s: float = 0.0
    #: From the end of an attempt until the next, at least, whatever the job is.
    requeue_s: float = 0.0
    #: For which an audit lasts that is given no limit.
    audit_s: float = 60.0


@dataclass(frozen=True)
class ScriptRules:
    """The way in which it starts a script."""

    #: `--name=value` reaches the script as it was written, for some read it themselves.
    keeps_spelling: bool = True
    #: It may state the port at which its ranks meet: its runs with several go one by one.
    states_ports: bool = False
    #: The threads of each process are left alone, which are then as many as the machine has cores:
    #: of a job with one rank alone, or of any.
    leaves_threads: Literal["no", "of one rank", "yes"] = "no"
    #: Arguments of later starts are given once the job has saved.
    restart_args_wait: bool = True
    #: Options of `chaos run` by which a first run takes less time.
    quick_options: tuple[str, ...] = ()


#: Why launchers do not have the sites that Ray Train and a queue have.
OF_REPORTS = dict.fromkeys(
    ("upload begins", "upload ends", "after report, before commit", "just after commit"),
    "it needs Ray Train",
)
OF_A_QUEUE = {"preempted at once": "it needs Ray Train"}


@dataclass(frozen=True)
class SiteRules:
    """The categories of fault sites that an audit has for its jobs, by their names."""

    #: Before there is anything to continue from.
    initial: str = "before the first save"
    #: Those that its jobs cannot have, with the reason.
    unavailable: Mapping[str, str] = field(default_factory=lambda: {**OF_REPORTS, **OF_A_QUEUE})
    #: Those of faults after which it begins no further attempt.
    unrestarted: tuple[str, ...] = ()
    #: The kinds of faults that have another name.
    kinds: Mapping[str, str] = field(default_factory=dict)
    #: The fault that ends an attempt so that another follows by itself.
    ending_fault: str = "kill_worker"
    #: The moments of each epoch and rank at which a fault can be drawn.
    moments: tuple[str, ...] = ()


@dataclass(frozen=True)
class LauncherFacts:
    """The facts of a launcher, and of every job that it starts."""

    #: Its name in scenarios, on the command line, and of the backend with its real processes.
    name: str
    words: LauncherWords
    #: The distribution whose version is the launcher's.
    package: str
    #: The extra of chaos that its jobs need.
    extra: str | None
    #: What it has beside workers; faults, moments and checks state what they need of it.
    features: frozenset[LauncherFeature]
    #: Who may begin again after a failure, the usual one first.
    restarts: tuple[Restart, ...]
    retries: RetryRules
    workers: WorkerRules
    fields: FieldRules
    nodes: NodeRules = NodeRules()
    times: TimeRules = TimeRules()
    script: ScriptRules = ScriptRules()
    sites: SiteRules = SiteRules()

    @property
    def has_reports(self) -> bool:
        """Whether workers report to it, and it commits what they save."""
        return "reports" in self.features

    @property
    def has_cluster(self) -> bool:
        """Whether a Ray cluster can run its jobs."""
        return "cluster" in self.features

    @property
    def has_call(self) -> bool:
        """Whether the script calls it itself, with settings that are seen there."""
        return "call" in self.features

    @property
    def has_driver(self) -> bool:
        """Whether the script is the driver, and its end that of the job."""
        return "driver" in self.features

    @property
    def replaces_lost_nodes(self) -> bool:
        """Whether a job on one node outlives the loss of that node."""
        return self.nodes.has_spares or self.nodes.restarts_elsewhere

    def apply_restart(self, restart: Restart | None) -> Self:
        """Return the facts of a job that begins again so; None is the usual way.

        A platform that starts the command again takes another node for it if that was lost.
        """
        is_moved = (restart or self.restarts[0]) == "command" and not self.nodes.has_spares
        return replace(self, nodes=replace(self.nodes, restarts_elsewhere=is_moved))
