"""The profile of a job, measured in a run without faults: length, saves, settings, evidence."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from pathlib import PurePath
from typing import Any, Self, TypeAlias

from chaos.check.save_operations import describe_operation, find_operations
from chaos.check.values import Value, flatten_values, matches_name
from chaos.model.event import (
    CheckpointRead,
    Committed,
    FileSaveBegun,
    FitCalled,
    FitReturned,
    LoaderProcesses,
    LossResolved,
    ReportBegun,
    StateSeen,
    StepDone,
    UploadBegun,
    UploadEnded,
    ValidationBegun,
    WorkerGroupStarted,
    WroteOutside,
)
from chaos.model.history import History
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher, find_launcher
from chaos.model.launcher_facts import Restart
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.places import START, EpochRank, RankName, TrainingPlace
from chaos.model.plan import Plan
from chaos.model.scenario import Tier
from chaos.model.tiers import Tiers
from chaos.model.trigger import SAVE_MOMENTS, Moment, build_path_patterns, has_drawn_name
from chaos.resume.state_snapshots import is_rng

_Series = Mapping[RankName, Sequence[Value]]


def find_evidence(history: History, *, ignore: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of the evidence: losses, state, metrics.

    A metric that only counts is no evidence, and neither is one of `ignore`, which
    is not compared.
    """
    if any(e.losses for _, e in history.select_events(StepDone)) or any(
        history.select_events(LossResolved)
    ):
        yield "losses"
    states = (part for _, e in history.select_events(StateSeen) for part in e.components)
    if any(not is_rng(part.name) and part.digest for part in states):
        yield "state"
    series = _group_metrics(history).items()
    if any(
        not is_counter(values) for (_, name), values in series if not matches_name(name, ignore)
    ):
        yield "metrics"


def is_counter(series: Sequence[Value]) -> bool:
    """Return whether values are no measurement: no numbers, even whole steps, or one value.

    Examples are an epoch, a step, a constant learning rate, and a name.
    """
    numbers = [v for v in series if isinstance(v, int | float) and not isinstance(v, bool)]
    # A job that reports an epoch and a learning rate would seem compared, though nothing it has
    # learned is among them: an audit of it must not pass on those.
    if len(numbers) < len(series) or len(set(numbers)) <= 1:
        return True
    if any(number != number or number % 1 for number in numbers):  # noqa: PLR0124 (NaN)
        return False
    return len({second - first for first, second in pairwise(numbers)}) == 1


def _group_metrics(history: History) -> _Series:
    series: dict[RankName, list[Value]] = {}
    for _, commit in history.select_events(Committed):
        for rank, record in enumerate(commit.metrics):
            for name, value in flatten_values(record):
                series.setdefault(RankName(rank, name), []).append(value)
    return series


@dataclass(frozen=True)
class ProfiledSaveOperation:
    """An operation of a job's saves on the files of a name."""

    moment: Moment
    #: as `AtMoment` takes it
    path: str
    #: the steps before the first of it in each rank's epoch; infinity where that is not the same in
    #: every run
    places: Mapping[EpochRank, float]
    #: the moment has no other files, so that a place need not name them
    is_only: bool = True
    #: its files survive the loss of their node, on whose disk others of the job's saves lie
    outlives_node: bool = False
    #: it is the writing of a file that is in its bucket as a whole, once it is closed
    is_put: bool = False

    @property
    def trigger_path(self) -> str | None:
        """The files that its places name."""
        return None if self.is_only else self.path

    def __str__(self) -> str:
        return describe_operation("closing" if self.is_put else self.moment, self.path)


@dataclass(frozen=True)
class JobProfile:
    """The facts about a job that determine its places.

    Under torchrun nothing is reported or committed, no setting is the script's, and the job's
    epochs end with its own saves.
    """

    ranks: tuple[int, ...]
    #: the committed reports
    epochs: tuple[int, ...]
    #: those of the reports with a checkpoint
    saved_epochs: tuple[int, ...]
    #: the place of each upload
    uploads: tuple[EpochRank, ...]
    #: the place of each written file
    saves: tuple[EpochRank, ...]
    #: the number of optimizer steps, with those after the last report
    steps: Mapping[EpochRank, int]
    #: the time of training after an epoch's last step; after its report if no step is seen
    remaining_s: Mapping[int, float]
    seconds: float
    #: those at `fit()`
    settings: Mapping[str, Any]
    #: the script's own values of settings that chaos replaced
    replaced: Mapping[str, Any]
    #: the ranks that, in a run with a fault, loaded after a restart a file of an earlier attempt
    loading_ranks: tuple[int, ...] = ()
    #: those at which a fault can be injected into a save
    operations: tuple[ProfiledSaveOperation, ...] = ()
    #: of `saves`, those of sharded saves beside training
    background_saves: tuple[EpochRank, ...] = ()
    #: the places at which rank 0, or the lowest that does, wrote a file with
    #: `torch.save`
    script_saves: tuple[TrainingPlace, ...] = ()
    #: files that were saved in training, and in no process that is watched
    unwatched_saves: tuple[str, ...] = ()
    #: whether a rank asked for its checkpoint
    asks_for_checkpoint: bool = True
    #: the evidence that a fault can change
    evidence: tuple[str, ...] = ("losses", "state", "metrics")
    #: the first step at which a data loader has processes, if another follows
    loaders: Mapping[EpochRank, int] = field(default_factory=dict)
    #: the step after which the model is first called in evaluation mode
    validations: Mapping[EpochRank, int] = field(default_factory=dict)
    #: reports come by the clock, so that it has only the places that every run has
    reports_by_clock: bool = False
    launcher: Launcher = DEFAULT_LAUNCHER
    #: how it begins again after a failure, None for its launcher's usual way
    restart: Restart | None = None
    #: the ranks on other nodes than rank 0's, which hosts torchrun's rendezvous
    remote_ranks: tuple[int, ...] = ()
    #: a number in place of the script's `max_failures`, which a restart by the command leaves alone
    retries: int | None = None
    #: the time between a preemption and the end of the job, in the queue that production has
    grace_s: float = 0.0
    #: the faults after which the script begins again by itself, where Ray Train does not
    most_faults: int | None = None

    @property
    def facts(self) -> LauncherPolicy:
        return LAUNCHER_FACTS[self.launcher].apply_restart(self.restart)

    def exclude_node_losses(self) -> Self:
        """Return the profile of the job where no node is to be lost."""
        operations = (replace(operation, outlives_node=False) for operation in self.operations)
        return replace(self, operations=tuple(operations))

    def can_lose_node(self, rank: int) -> bool:
        """Return whether the job outlives the loss of a rank's node."""
        return self.facts.replaces_lost_nodes or rank in self.remote_ranks

    @cached_property
    def resume_places(self) -> tuple[TrainingPlace, ...]:
        """The places from which a restart can resume.

        They are those of Ray's checkpoints; without any, those of the job's own files.
        """
        if self.saved_epochs:
            return tuple(TrainingPlace(epoch + 1, 0) for epoch in self.saved_epochs)
        return self.script_saves or tuple(
            sorted({TrainingPlace(epoch + 1, 0) for epoch, _ in self.saves})
        )

    @cached_property
    def resume_places_before_end(self) -> tuple[TrainingPlace, ...]:
        """The points with training left after them."""
        if self.reports_by_clock:
            return self.resume_places
        end = max(
            (TrainingPlace(epoch, steps) for (epoch, _), steps in self.steps.items()), default=None
        )
        last_point = TrainingPlace(self.epoch_last, 1) if end is None else end
        return tuple(point for point in self.resume_places if point < last_point)

    @property
    def step_place_count(self) -> int:
        """The number of steps of all ranks together: each is a place."""
        return sum(self.steps.values())

    @property
    def has_reports(self) -> bool:
        """Whether a report ends an epoch; else steps and the job's own saves count."""
        return self.facts.has_reports

    @property
    def epoch_last(self) -> int:
        """The last epoch in which anything was trained or reported."""
        return max((*self.epochs, *(epoch for epoch, _ in self.steps)), default=0)

    @property
    def epoch_count(self) -> int:
        """The number of epochs to show: a file may be saved after the last report."""
        operation_places = (place for operation in self.operations for place in operation.places)
        save_epochs = (epoch for epoch, _ in (*self.saves, *self.uploads, *operation_places))
        return 1 + max((self.epoch_last, *save_epochs))

    @property
    def has_checkpoints(self) -> bool:
        """Whether any report carried a checkpoint."""
        return bool(self.saved_epochs)

    @property
    def has_saves(self) -> bool:
        """Whether a checkpoint, or a save of the job's own, was seen."""
        return bool(self.saves) or self.has_checkpoints

    @property
    def is_elastic(self) -> bool:
        """Whether Ray may continue with fewer workers."""
        return isinstance(self.settings.get("num_workers"), list | tuple)

    @property
    def moments(self) -> Mapping[Moment, Sequence[EpochRank]]:
        """The places of each moment."""
        reports = [EpochRank(epoch, rank) for epoch in self.epochs for rank in self.ranks]
        save_places = {moment: self._find_save_places(moment) for moment in SAVE_MOMENTS}
        return {
            **save_places,
            "validating": tuple(self.validations),
            "upload_begin": self.uploads,
            "upload_end": self.uploads,
            "reported": reports,
            "committed": reports,
        }

    def _find_save_places(self, moment: Moment) -> Sequence[EpochRank]:
        operation_places = (
            operation.places for operation in self.operations if operation.moment == moment
        )
        return sorted({place for places in operation_places for place in places})

    def find_setting(self, setting: str) -> Any:  # noqa: ANN401 (settings are of any type)
        """Return a setting's value in the script, None if it is unknown."""
        return self.replaced.get(setting, self.settings.get(setting))


def measure_job(
    history: History,
    *,
    ignore: tuple[str, ...] = (),
    repeats: Sequence[History] = (),
    plan: Plan | None = None,
) -> JobProfile:
    """Measure a job by the history of a run without faults.

    `ignore` are metrics that differ between such runs, `repeats` are more such runs: an operation
    of a save is a place only where each of them has it. `plan` shows who begins the job again, and
    which files outlive their node.
    """
    steps: dict[EpochRank, int] = {}
    last_ns: dict[int, int] = {}
    for number, step in history.select_events(StepDone):
        key = EpochRank(step.epoch, step.rank)
        steps[key] = max(steps.get(key, 0), step.step)
        last_ns[step.epoch] = history.time_ns(number)
    for number, report in history.select_events(ReportBegun) if not steps else ():
        last_ns[report.epoch] = history.time_ns(number)
    commits = [event for _, event in history.select_events(Committed)]
    uploads = {EpochRank(e.epoch, e.rank) for _, e in history.select_events(UploadBegun)}
    uploads |= {EpochRank(e.epoch, e.rank) for _, e in history.select_events(UploadEnded)}
    validations = {
        EpochRank(e.epoch, e.rank): e.step for _, e in history.select_events(ValidationBegun)
    }
    # A cache that the first run makes is there in the next: a place in its writing would be a place
    # of one run alone, and the job was called one that saves by the clock.
    saves = find_training_saves(history)
    end_ns = _find_training_end(history)
    fit_call = next((event for _, event in history.select_events(FitCalled)), None)
    facts = LAUNCHER_FACTS[find_launcher(fit_call and fit_call.trainer)]
    tiers = None if plan is None else Tiers.from_plan(plan, normalize=os.path.realpath)
    return JobProfile(
        launcher=facts.name,
        ranks=_find_ranks(steps, commits),
        epochs=tuple(sorted({commit.epoch for commit in commits if not commit.early})),
        saved_epochs=tuple(
            sorted({c.epoch for c in commits if c.checkpoint is not None and not c.early})
        ),
        uploads=tuple(sorted(uploads)),
        saves=tuple(sorted({EpochRank(e.epoch, e.rank) for e in saves})),
        background_saves=tuple(sorted(_find_background_saves(saves))),
        steps=dict(sorted(steps.items())),
        validations=dict(sorted(validations.items())),
        remaining_s={epoch: (end_ns - at_ns) / 1e9 for epoch, at_ns in sorted(last_ns.items())},
        seconds=(history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0,
        settings=_find_settings(fit_call, facts, history) if fit_call else {},
        remote_ranks=() if facts.nodes.has_spares else _find_remote_ranks(history),
        replaced=fit_call.original_settings if fit_call else {},
        script_saves=_find_rank_saves(saves),
        unwatched_saves=_find_unwatched_saves(history),
        loaders=_find_loader_steps(history, steps),
        operations=_find_operations(history, repeats, tiers),
        restart=None if plan is None else plan.job.restart,
        asks_for_checkpoint=any(history.select_events(CheckpointRead)),
        evidence=tuple(find_evidence(history, ignore=ignore)),
    )


def _find_unwatched_saves(history: History) -> tuple[str, ...]:
    """Return the files that only a process of the job's own can have saved, as a forked child."""
    watched_names = {PurePath(e.path).name for _, e in history.select_events(FileSaveBegun)}
    writes = (
        e
        for _, e in history.select_events(WroteOutside)
        if e.is_save and e.removed and not e.after_fit
    )
    return tuple(e.path for e in writes if PurePath(e.path).name not in watched_names)


def intersect_profiles(runs: Sequence[JobProfile]) -> JobProfile:
    """Return the places that every run of a job shares, if it reports or saves by the clock.

    If it reports nothing, its epochs are counted by steps: every run has all of these, and only
    saves fall elsewhere. Else, by reports:
    Its epochs are those that no run ended with: after these nothing may be left to train.
    Of each epoch it has only the first step: the number of steps before the next report depends
    on the clock, and on a busy machine it is one.
    """
    first_run = runs[0]
    if not first_run.has_reports:
        saves = tuple(p for p in first_run.saves if all(p in run.saves for run in runs))
        return replace(
            first_run,
            saves=saves,
            background_saves=(),
            script_saves=(),
            operations=_find_shared_operations(runs, saves),
            seconds=max(run.seconds for run in runs),
        )
    # Faults are injected only where every run comes by: at the first step after a report, at the
    # moments of a report, and at none that only the longest run has.
    count = max(min(len(run.epochs) for run in runs) - 1, 0)
    places = [EpochRank(epoch, rank) for epoch in range(max(count, 1)) for rank in first_run.ranks]
    saves = tuple(p for p in places if all(p in run.saves for run in runs) and count)
    return replace(
        first_run,
        epochs=tuple(range(count)),
        saved_epochs=tuple(e for e in range(count) if all(e in run.saved_epochs for run in runs)),
        uploads=tuple(p for p in places if all(p in run.uploads for run in runs) and count),
        saves=saves,
        background_saves=(),
        script_saves=(),
        loaders={},
        operations=_find_shared_operations(runs, saves),
        validations={},
        steps=dict.fromkeys(places, 1),
        remaining_s={
            epoch: min(run.remaining_s.get(epoch, 0.0) for run in runs) for epoch, _ in places
        },
        seconds=max(run.seconds for run in runs),
        evidence=tuple(kind for kind in first_run.evidence if kind != "metrics"),
        reports_by_clock=True,
    )


def _find_settings(
    fit_call: FitCalled, facts: LauncherPolicy, history: History
) -> Mapping[str, Any]:
    """Return the settings that are the job's: of a command, the number of workers alone.

    Where that was not known when it was called, it is the number of those that came.
    """
    groups = [len(event.workers) for _, event in history.select_events(WorkerGroupStarted)]
    worker_count = groups[-1] if groups else None
    return facts.select_settings(fit_call.settings, worker_count)


def _find_remote_ranks(history: History) -> tuple[int, ...]:
    group_start = next((event for _, event in history.select_events(WorkerGroupStarted)), None)
    nodes = (
        {}
        if group_start is None
        else {worker.rank: worker.node_id for worker in group_start.workers}
    )
    return tuple(rank for rank, node in sorted(nodes.items()) if node != nodes.get(0))


def _find_loader_steps(history: History, steps: Mapping[EpochRank, int]) -> Mapping[EpochRank, int]:
    """Return the first step of each epoch and rank with processes of a loader, but for the last."""
    process_counts: dict[int, int] = {}
    loader_steps: dict[EpochRank, int] = {}
    for number in history.select_numbers(LoaderProcesses, StepDone):
        match history[number].event:
            case LoaderProcesses() as seen:
                process_counts[seen.rank] = seen.count
            case StepDone() as step if process_counts.get(step.rank):
                epoch_rank = EpochRank(step.epoch, step.rank)
                if step.step < steps[epoch_rank]:
                    loader_steps.setdefault(epoch_rank, step.step)
            case _:
                pass
    return loader_steps


def find_training_saves(history: History) -> list[FileSaveBegun]:
    """Return the saves of a run without faults, but for those before a process's first step.

    What is written there is data, such as a cache, which may be there in the next run.
    """
    training_ranks = {step.rank for _, step in history.select_events(StepDone)}
    saves = history.select_events(FileSaveBegun)
    return [e for _, e in saves if (e.epoch, e.step) > START or e.rank not in training_ranks]


def _find_rank_saves(saves: Sequence[FileSaveBegun]) -> tuple[TrainingPlace, ...]:
    rank = min((event.rank for event in saves), default=0)
    return tuple(sorted({TrainingPlace(e.epoch, e.step) for e in saves if e.rank == rank}))


def _find_background_saves(saves: Sequence[FileSaveBegun]) -> set[EpochRank]:
    """Return the places whose first save is sharded, and written beside training."""
    first_saves: dict[EpochRank, FileSaveBegun] = {}
    for e in saves:
        if e.saver in ("torch", "shards"):
            first_saves.setdefault(EpochRank(e.epoch, e.rank), e)
    return {place for place, e in first_saves.items() if e.is_beside and e.saver == "shards"}


# Kinds of operations that are places: a job may write files with names of its own.
OPERATIONS_MAX = 16
# A moment and files: by rank and epoch, the number of the event, and the steps before it.
_Kind: TypeAlias = tuple[Moment, str]
_ByKind: TypeAlias = dict[_Kind, dict[EpochRank, tuple[int, int]]]


def _find_operations(
    history: History, repeats: Sequence[History], tiers: Tiers | None
) -> tuple[ProfiledSaveOperation, ...]:
    """Return what a save does to each series of files, in the order of the longest save."""
    runs = (history, *repeats)
    patterns = build_path_patterns([{e.path for _, _, e in find_operations(run)} for run in runs])
    places_by_kind, *other_runs = (_group_by_kind(run, patterns) for run in runs)
    for kind, places in places_by_kind.items():
        repeated_places = {
            p for p in places if all(p in other_run.get(kind, ()) for other_run in other_runs)
        }
        places_by_kind[kind] = {place: places[place] for place in sorted(repeated_places)}
    places_by_kind = {kind: places for kind, places in places_by_kind.items() if places}
    operation_counts = Counter(place for places in places_by_kind.values() for place in places)
    longest_save = max(
        sorted(operation_counts, reverse=True),
        key=lambda place: operation_counts[place],
        default=None,
    )
    end_number = len(history)
    kinds = sorted(
        places_by_kind,
        key=lambda kind: places_by_kind[kind].get(longest_save, (end_number, 0)),  # type: ignore[arg-type]
    )
    kinds = [kind for kind in kinds if _adds_evidence(kind, kinds)][:OPERATIONS_MAX]
    moments = Counter(moment for moment, _ in kinds)
    kinds_by_tier = _group_by_tier(history, patterns, tiers) if tiers else dict[Tier, set[_Kind]]()
    # Where all saves outlive it, the loss of the node leaves what the end of the process leaves.
    surviving_kinds = set(kinds) - kinds_by_tier.get("node", set())
    surviving_kinds = surviving_kinds if len(surviving_kinds) < len(kinds) else set()
    bucket_kinds = kinds_by_tier.get("bucket", set())
    return tuple(
        ProfiledSaveOperation(
            moment,
            path,
            {place: step for place, (_, step) in places_by_kind[moment, path].items()},
            is_only=moments[moment] == 1,
            outlives_node=(moment, path) in surviving_kinds,
            is_put=moment in ("opening", "saving") and (moment, path) in bucket_kinds,
        )
        for moment, path in kinds
    )


def _group_by_tier(
    history: History, patterns: Mapping[str, str], tiers: Tiers
) -> dict[Tier, set[_Kind]]:
    """Return the operations on files of each tier."""
    kinds_by_tier = dict[Tier, set[_Kind]]()
    for _, moment, e in find_operations(history):
        kinds_by_tier.setdefault(tiers.find_tier(e.path), set()).add((moment, patterns[e.path]))
    return kinds_by_tier


def _adds_evidence(kind: _Kind, kinds: Sequence[_Kind]) -> bool:
    """Return whether a death at an operation may leave what it leaves at none of the others.

    Half of a file shows as much as an empty one, and what is in a folder that is renamed once it
    is whole as much as the folder alone. Of the files of a folder that is removed as a
    whole, the second is enough: one is gone then, and another is there.
    """
    moment, path = kind
    folder = path.rpartition("/")[0]
    if moment == "opening":
        return ("saving", path) not in kinds
    if moment == "making":
        return ("renaming", path) not in kinds
    if moment != "removing" or all(
        other_path.rpartition("/")[2] != folder
        for other_moment, other_path in kinds
        if other_moment == "removing"
    ):
        return True
    inner_kinds = [
        other_kind
        for other_kind in kinds
        if other_kind[0] == moment and other_kind[1].startswith(f"{folder}/")
    ]
    return kind == inner_kinds[:2][-1]


def _group_by_kind(history: History, patterns: Mapping[str, str]) -> _ByKind:
    """Return the first of each operation in each rank's epoch.

    What is written before any training is left out: it may be there in the next run. So is what
    happens to a file that no later process finds, as its name is drawn; but for the first. A folder
    that several ranks may make is made by another one in the next run.
    """
    training_ranks = {step.rank for _, step in history.select_events(StepDone)}
    places_by_kind, drawn_path = _ByKind(), ""
    for number, moment, e in find_operations(history):
        if (e.epoch, e.step) == START and not (moment == "saving" and e.rank not in training_ranks):
            continue
        if moment == "making" and len(training_ranks) > 1:
            continue
        path = patterns[e.path]
        if moment != "renaming" and has_drawn_name(e.path):
            drawn_path = drawn_path or (path if moment == "saving" else "")
            if moment != "saving" or path != drawn_path:
                continue
        place = EpochRank(e.epoch, e.rank)
        places_by_kind.setdefault((moment, path), {}).setdefault(place, (number, e.step))
    return places_by_kind


def _find_shared_operations(
    runs: Sequence[JobProfile], saves: Sequence[EpochRank]
) -> tuple[ProfiledSaveOperation, ...]:
    """Return the middle of a save, at no known step, at those where every run can be stopped."""
    shared_saves = [p for p in saves if all(p in run.moments["saving"] for run in runs)]
    return (
        (ProfiledSaveOperation("saving", "", dict.fromkeys(shared_saves, inf)),)
        if shared_saves
        else ()
    )


def _find_ranks(steps: Mapping[EpochRank, int], commits: list[Committed]) -> tuple[int, ...]:
    rank_count = max((len(commit.metrics) for commit in commits), default=0)
    return tuple(sorted({rank for _, rank in steps} | set(range(rank_count))))


def _find_training_end(history: History) -> int:
    """Return the time at which training was over: `fit()` may return long after it."""
    ends = [n for n, _ in history.select_events(Committed)] or [
        n for n, _ in history.select_events(FitReturned)
    ]
    return history.time_ns(ends[-1]) if ends else 0
