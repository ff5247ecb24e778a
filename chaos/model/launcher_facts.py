"""The facts and words of a launcher, from which plans, checks, reports and commands read.

A launcher starts a job's workers, and starts them again after a failure. Nothing but its own folder
asks which launcher a job has; everything else asks for a fact, or its policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    #: What a script for it is, if that is no Python script; how that shows, and what takes it.
    script_kind: str = ""
    script_evidence: str = ""
    script_hint: str = ""

    def describe_failure(self, error: str) -> str:
        """Return in words that the training failed, with the failure's name."""
        return f"{self.call} {self.failure_verb} {error}"

    def describe_place(self, epoch: int, step: int, moment: str) -> str:
        """Return in words the place of a state snapshot."""
        return f"{self.end_of_epoch} {epoch}" if moment == "left" else f"epoch {epoch}, step {step}"


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
    #: What it has beside workers; faults, places, checks and options state what they need of it.
    features: frozenset[LauncherFeature]
    #: The retry budgets that it knows, and the setting that each kind of failure is charged to.
    budgets: tuple[str, ...]
    settings: Mapping[str, str]
    counted_by: Counter
    #: Who may begin again after a failure, the usual one first.
    restarts: tuple[Restart, ...]
    #: Nodes hold workers by their CPUs, and there is a spare one for each that is lost. Else each
    #: node has an agent with as many workers, and another one comes for one that is lost.
    has_spare_nodes: bool
    #: The script itself states the number of its workers; how many there are until it is seen.
    sets_worker_count: bool
    default_workers: int
    #: The fields of a scenario's `cluster` that it has.
    cluster_fields: tuple[str, ...]
    #: The fields of a scenario's `job` that it does not have.
    missing_job_fields: tuple[str, ...]
    #: The fields of an audit's request that it takes, beside those for every launcher's jobs.
    audit_fields: tuple[str, ...]
    #: The longest that it may take by itself to end the workers of an attempt, and until agents
    #: have met again: no limit of chaos's may come before.
    shutdown_s: float = 0.0
    meeting_s: float = 0.0
    #: The seconds from the end of an attempt until the next, at least, whatever the job is.
    requeue_s: float = 0.0
    #: `--name=value` reaches the script as it was written, for some read it themselves.
    keeps_spelling: bool = True
    #: A job has one node; if that is lost, the next start of the command is on another one.
    restarts_on_another_node: bool = False
    #: A node that is announced to go is given to another job, and comes back after it.
    returns_preempted: bool = False
    #: An attempt follows another if the job was requeued, and none that a worker's death has ended.
    restarts_by_requeue: bool = False
    #: A script may state the port at which its ranks meet: its runs with several go one by one.
    states_ports: bool = False
    #: It leaves the threads of each process alone, which are then as many as the machine has cores:
    #: of a job with one rank alone, or of any.
    leaves_threads: Literal["no", "of one rank", "yes"] = "no"

    @property
    def replaces_lost_nodes(self) -> bool:
        """Whether a job on one node outlives the loss of that node."""
        return self.has_spare_nodes or self.restarts_on_another_node

    def apply_restart(self, restart: Restart | None) -> Self:
        """Return the facts of a job that begins again so; None is the usual way.

        A platform that starts the command again takes another node for it if that was lost.
        """
        is_moved = (restart or self.restarts[0]) == "command" and not self.has_spare_nodes
        return replace(self, restarts_on_another_node=is_moved)

    def lacks_feature(self, part: LauncherFeature | None) -> bool:
        """Return whether it does not have what is needed of it."""
        return part is not None and part not in self.features
