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

from chaos.check.save_operations import operation_in_words, operations_of
from chaos.check.state_snapshots import is_rng
from chaos.check.values import Value, flat, is_below
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
from chaos.model.launcher import (
    FACTS,
    USUAL,
    Launcher,
    LauncherFacts,
    Restart,
    launcher_named,
)
from chaos.model.places import START, EpochRank, Place, RankName
from chaos.model.plan import Plan
from chaos.model.scenario import Tier
from chaos.model.tiers import Tiers
from chaos.model.trigger import IN_A_SAVE, Moment, has_drawn_name, path_patterns

_Series = Mapping[RankName, Sequence[Value]]


def seen_in(history: History, *, ignore: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of the evidence: losses, state, metrics.

    A metric that only counts is no evidence, and neither is one of `ignore`, which
    is not compared.
    """
    if any(e.losses for _, e in history.of(StepDone)) or any(history.of(LossResolved)):
        yield "losses"
    states = (part for _, e in history.of(StateSeen) for part in e.components)
    if any(not is_rng(part.name) and part.digest for part in states):
        yield "state"
    series = _series(history).items()
    if any(not counts(values) for (_, name), values in series if not is_below(name, ignore)):
        yield "metrics"


def counts(series: Sequence[Value]) -> bool:
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
    return len({after - before for before, after in pairwise(numbers)}) == 1


def _series(history: History) -> _Series:
    found: dict[RankName, list[Value]] = {}
    for _, commit in history.of(Committed):
        for place, record in enumerate(commit.metrics):
            for name, value in flat(record):
                found.setdefault(RankName(place, name), []).append(value)
    return found


@dataclass(frozen=True)
class SaveOperation:
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
    def asked(self) -> str | None:
        """The files that its places name."""
        return None if self.is_only else self.path

    def __str__(self) -> str:
        return operation_in_words("closing" if self.is_put else self.moment, self.path)


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
    saved: tuple[int, ...]
    #: the place of each upload
    uploads: tuple[EpochRank, ...]
    #: the place of each written file
    saves: tuple[EpochRank, ...]
    #: the number of optimizer steps, with those after the last report
    steps: Mapping[EpochRank, int]
    #: the time of training after an epoch's last step; after its report if no step is seen
    left_s: Mapping[int, float]
    seconds: float
    #: those at `fit()`
    settings: Mapping[str, Any]
    #: the script's own values of settings that chaos replaced
    replaced: Mapping[str, Any]
    #: the ranks that, in a run with a fault, loaded after a restart a file of an earlier attempt
    loads: tuple[int, ...] = ()
    #: those at which a fault can be injected into a save
    operations: tuple[SaveOperation, ...] = ()
    #: of `saves`, those of sharded saves beside training
    beside: tuple[EpochRank, ...] = ()
    #: the places at which rank 0, or the lowest that does, wrote a file with
    #: `torch.save`
    own_saves: tuple[Place, ...] = ()
    #: files that were saved in training, and in no process that is watched
    unwatched_saves: tuple[str, ...] = ()
    #: whether a rank asked for its checkpoint
    asks: bool = True
    #: the evidence that a fault can change
    sees: tuple[str, ...] = ("losses", "state", "metrics")
    #: the first step at which a data loader has processes, if another follows
    loaders: Mapping[EpochRank, int] = field(default_factory=dict)
    #: the step after which the model is first called in evaluation mode
    validations: Mapping[EpochRank, int] = field(default_factory=dict)
    #: reports come by the clock, so that it has only the places that every run has
    by_clock: bool = False
    launcher: Launcher = USUAL
    #: how it begins again after a failure, None for its launcher's usual way
    restart: Restart | None = None
    #: the ranks on other nodes than rank 0's, which hosts torchrun's rendezvous
    away: tuple[int, ...] = ()
    #: a number in place of the script's `max_failures`, which a restart by the command leaves alone
    retries: int | None = None
    #: the time between a preemption and the end of the job, in the queue that production has
    grace_s: float = 0.0
    #: the faults after which the script begins again by itself, where Ray Train does not
    most_faults: int | None = None

    @property
    def facts(self) -> LauncherFacts:
        return FACTS[self.launcher].started_by(self.restart)

    def on_nodes_that_stay(self) -> Self:
        """Return the profile of the job where no node is to be lost."""
        stay = (replace(one, outlives_node=False) for one in self.operations)
        return replace(self, operations=tuple(stay))

    def loses_node_of(self, rank: int) -> bool:
        """Return whether the job outlives the loss of a rank's node."""
        return self.facts.loses_nodes or rank in self.away

    @cached_property
    def points(self) -> tuple[Place, ...]:
        """The places from which a restart can resume.

        They are those of Ray's checkpoints; without any, those of the job's own files.
        """
        if self.saved:
            return tuple(Place(epoch + 1, 0) for epoch in self.saved)
        return self.own_saves or tuple(sorted({Place(epoch + 1, 0) for epoch, _ in self.saves}))

    @cached_property
    def resume_points(self) -> tuple[Place, ...]:
        """The points with training left after them."""
        if self.by_clock:
            return self.points
        end = max((Place(epoch, steps) for (epoch, _), steps in self.steps.items()), default=None)
        last = Place(self.epoch_last, 1) if end is None else end
        return tuple(point for point in self.points if point < last)

    @property
    def step_places(self) -> int:
        """The number of steps of all ranks together: each is a place."""
        return sum(self.steps.values())

    @property
    def epoch_last(self) -> int:
        """The last epoch in which anything was trained or reported."""
        return max((*self.epochs, *(epoch for epoch, _ in self.steps)), default=0)

    @property
    def epochs_seen(self) -> int:
        """The number of epochs to show: a file may be saved after the last report."""
        in_saves = (place for one in self.operations for place in one.places)
        after = (epoch for epoch, _ in (*self.saves, *self.uploads, *in_saves))
        return 1 + max((self.epoch_last, *after))

    @property
    def has_checkpoints(self) -> bool:
        """Whether any report carried a checkpoint."""
        return bool(self.saved)

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
        in_saves = {moment: self._places_in_saves(moment) for moment in IN_A_SAVE}
        return {
            **in_saves,
            "validating": tuple(self.validations),
            "upload_begin": self.uploads,
            "upload_end": self.uploads,
            "reported": reports,
            "committed": reports,
        }

    def _places_in_saves(self, moment: Moment) -> Sequence[EpochRank]:
        of_moment = (one.places for one in self.operations if one.moment == moment)
        return sorted({place for places in of_moment for place in places})

    def own(self, setting: str) -> Any:  # noqa: ANN401 (settings are of any type)
        """Return a setting's value in the script, None if it is unknown."""
        return self.replaced.get(setting, self.settings.get(setting))


def job_profile(
    history: History,
    *,
    ignore: tuple[str, ...] = (),
    again: Sequence[History] = (),
    plan: Plan | None = None,
) -> JobProfile:
    """Measure a job by the history of a run without faults.

    `ignore` are metrics that differ between such runs, `again` more of them: an operation of a save
    is a place only where each of them has it. `plan` tells who begins it again, and which files
    outlive their node.
    """
    steps: dict[EpochRank, int] = {}
    last_ns: dict[int, int] = {}
    for number, step in history.of(StepDone):
        key = EpochRank(step.epoch, step.rank)
        steps[key] = max(steps.get(key, 0), step.step)
        last_ns[step.epoch] = history.time_ns(number)
    for number, begun in history.of(ReportBegun) if not steps else ():
        last_ns[begun.epoch] = history.time_ns(number)
    commits = [event for _, event in history.of(Committed)]
    uploads = {EpochRank(e.epoch, e.rank) for _, e in history.of(UploadBegun)}
    uploads |= {EpochRank(e.epoch, e.rank) for _, e in history.of(UploadEnded)}
    validations = {EpochRank(e.epoch, e.rank): e.step for _, e in history.of(ValidationBegun)}
    # A cache that the first run makes is there in the next: a place in its writing would be a place
    # of one run alone, and the job was called one that saves by the clock.
    saves = saves_of_training(history)
    over_ns = _training_over_ns(history)
    called = next((event for _, event in history.of(FitCalled)), None)
    facts = FACTS[launcher_named(called and called.trainer)]
    tiers = None if plan is None else Tiers.of(plan, real=os.path.realpath)
    return JobProfile(
        launcher=facts.name,
        ranks=_ranks(steps, commits),
        epochs=tuple(sorted({commit.epoch for commit in commits if not commit.early})),
        saved=tuple(sorted({c.epoch for c in commits if c.checkpoint is not None and not c.early})),
        uploads=tuple(sorted(uploads)),
        saves=tuple(sorted({EpochRank(e.epoch, e.rank) for e in saves})),
        beside=tuple(sorted(_beside(saves))),
        steps=dict(sorted(steps.items())),
        validations=dict(sorted(validations.items())),
        left_s={epoch: (over_ns - at_ns) / 1e9 for epoch, at_ns in sorted(last_ns.items())},
        seconds=(history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0,
        settings=_settings(called, facts, history) if called else {},
        away=() if facts.has_spare_nodes else _away(history),
        replaced=called.replaced if called else {},
        own_saves=_own_saves(saves),
        unwatched_saves=_unwatched_saves(history),
        loaders=_loaders(history, steps),
        operations=_operations(history, again, tiers),
        restart=None if plan is None else plan.job.restart,
        asks=any(history.of(CheckpointRead)),
        sees=tuple(seen_in(history, ignore=ignore)),
    )


def _unwatched_saves(history: History) -> tuple[str, ...]:
    """Return the files that only a process of the job's own can have saved, as a forked child."""
    watched = {PurePath(e.path).name for _, e in history.of(FileSaveBegun)}
    saved = (e for _, e in history.of(WroteOutside) if e.is_save and e.removed and not e.after_fit)
    return tuple(e.path for e in saved if PurePath(e.path).name not in watched)


def shared(runs: Sequence[JobProfile]) -> JobProfile:
    """Return the places that every run of a job shares, if it reports or saves by the clock.

    If it reports nothing, its epochs are counted by steps: every run has all of these, and only
    saves fall elsewhere. Else, by reports:
    Its epochs are those that no run ended with: after these nothing may be left to train.
    Of each epoch it has only the first step: the number of steps before the next report depends
    on the clock, and on a busy machine it is one.
    """
    first = runs[0]
    if first.facts.lacks_part("reports"):
        saves = tuple(p for p in first.saves if all(p in run.saves for run in runs))
        return replace(
            first,
            saves=saves,
            beside=(),
            own_saves=(),
            operations=_in_every_run(runs, saves),
            seconds=max(run.seconds for run in runs),
        )
    # Faults are injected only where every run comes by: at the first step after a report, at the
    # moments of a report, and at none that only the longest run has.
    count = max(min(len(run.epochs) for run in runs) - 1, 0)
    places = [EpochRank(epoch, rank) for epoch in range(max(count, 1)) for rank in first.ranks]
    saves = tuple(p for p in places if all(p in run.saves for run in runs) and count)
    return replace(
        first,
        epochs=tuple(range(count)),
        saved=tuple(e for e in range(count) if all(e in run.saved for run in runs)),
        uploads=tuple(p for p in places if all(p in run.uploads for run in runs) and count),
        saves=saves,
        beside=(),
        own_saves=(),
        loaders={},
        operations=_in_every_run(runs, saves),
        validations={},
        steps=dict.fromkeys(places, 1),
        left_s={epoch: min(run.left_s.get(epoch, 0.0) for run in runs) for epoch, _ in places},
        seconds=max(run.seconds for run in runs),
        sees=tuple(what for what in first.sees if what != "metrics"),
        by_clock=True,
    )


def _settings(called: FitCalled, facts: LauncherFacts, history: History) -> Mapping[str, Any]:
    """Return the settings that are the job's: of a command, the number of workers alone.

    Where that was not known when it was called, it is the number of those that came.
    """
    if "call" in facts.has:
        return called.settings
    groups = [len(event.workers) for _, event in history.of(WorkerGroupStarted)]
    came = groups[-1] if groups else None
    return {"num_workers": called.settings.get("num_workers") or came}


def _away(history: History) -> tuple[int, ...]:
    started = next((event for _, event in history.of(WorkerGroupStarted)), None)
    nodes = {} if started is None else {place.rank: place.node_id for place in started.workers}
    return tuple(rank for rank, node in sorted(nodes.items()) if node != nodes.get(0))


def _loaders(history: History, steps: Mapping[EpochRank, int]) -> Mapping[EpochRank, int]:
    """Return the first step of each epoch and rank with processes of a loader, but for the last."""
    living: dict[int, int] = {}
    found: dict[EpochRank, int] = {}
    for number in history.numbers_of(LoaderProcesses, StepDone):
        match history[number].what:
            case LoaderProcesses() as seen:
                living[seen.rank] = seen.count
            case StepDone() as step if living.get(step.rank):
                place = EpochRank(step.epoch, step.rank)
                if step.step < steps[place]:
                    found.setdefault(place, step.step)
            case _:
                pass
    return found


def saves_of_training(history: History) -> list[FileSaveBegun]:
    """Return the saves of a run without faults, but for those before a process's first step.

    What is written there is data, such as a cache, which may be there in the next run.
    """
    train = {step.rank for _, step in history.of(StepDone)}
    saves = history.of(FileSaveBegun)
    return [e for _, e in saves if (e.epoch, e.step) > START or e.rank not in train]


def _own_saves(saves: Sequence[FileSaveBegun]) -> tuple[Place, ...]:
    rank = min((event.rank for event in saves), default=0)
    return tuple(sorted({Place(e.epoch, e.step) for e in saves if e.rank == rank}))


def _beside(saves: Sequence[FileSaveBegun]) -> set[EpochRank]:
    """Return the places whose first save is sharded, and written beside training."""
    first: dict[EpochRank, FileSaveBegun] = {}
    for e in saves:
        if e.saver in ("torch", "shards"):
            first.setdefault(EpochRank(e.epoch, e.rank), e)
    return {place for place, e in first.items() if e.is_beside and e.saver == "shards"}


# Kinds of operations that are places: a job may write files with names of its own.
OPERATIONS_MAX = 16
# A moment and files: by rank and epoch, the number of the event, and the steps before it.
_Kind: TypeAlias = tuple[Moment, str]
_ByKind: TypeAlias = dict[_Kind, dict[EpochRank, tuple[int, int]]]


def _operations(
    history: History, again: Sequence[History], tiers: Tiers | None
) -> tuple[SaveOperation, ...]:
    """Return what a save does to each series of files, in the order of the longest save."""
    runs = (history, *again)
    patterns = path_patterns([{e.path for _, _, e in operations_of(run)} for run in runs])
    found, *others = (_by_kind(run, patterns) for run in runs)
    for kind, places in found.items():
        repeated = {p for p in places if all(p in other.get(kind, ()) for other in others)}
        found[kind] = {place: places[place] for place in sorted(repeated)}
    found = {kind: places for kind, places in found.items() if places}
    at = Counter(place for places in found.values() for place in places)
    longest = max(sorted(at, reverse=True), key=lambda place: at[place], default=None)
    late = len(history)
    kinds = sorted(found, key=lambda kind: found[kind].get(longest, (late, 0)))  # type: ignore[arg-type]
    kinds = [kind for kind in kinds if _shows_more(kind, kinds)][:OPERATIONS_MAX]
    moments = Counter(moment for moment, _ in kinds)
    of_tier = _by_tier(history, patterns, tiers) if tiers else dict[Tier, set[_Kind]]()
    # Where all saves outlive it, the loss of the node leaves what the end of the process leaves.
    outlive = set(kinds) - of_tier.get("node", set())
    outlive = outlive if len(outlive) < len(kinds) else set()
    in_buckets = of_tier.get("bucket", set())
    return tuple(
        SaveOperation(
            moment,
            path,
            {place: step for place, (_, step) in found[moment, path].items()},
            is_only=moments[moment] == 1,
            outlives_node=(moment, path) in outlive,
            is_put=moment in ("opening", "saving") and (moment, path) in in_buckets,
        )
        for moment, path in kinds
    )


def _by_tier(history: History, patterns: Mapping[str, str], tiers: Tiers) -> dict[Tier, set[_Kind]]:
    """Return the operations on files of each tier."""
    found = dict[Tier, set[_Kind]]()
    for _, moment, e in operations_of(history):
        found.setdefault(tiers.of_file(e.path), set()).add((moment, patterns[e.path]))
    return found


def _shows_more(kind: _Kind, kinds: Sequence[_Kind]) -> bool:
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
        other.rpartition("/")[2] != folder for of, other in kinds if of == "removing"
    ):
        return True
    inside = [one for one in kinds if one[0] == moment and one[1].startswith(f"{folder}/")]
    return kind == inside[:2][-1]


def _by_kind(history: History, patterns: Mapping[str, str]) -> _ByKind:
    """Return the first of each operation in each rank's epoch.

    What is written before any training is left out: it may be there in the next run. So is what
    happens to a file that no later process finds, as its name is drawn; but for the first. A folder
    that several ranks may make is made by another one in the next run.
    """
    train = {step.rank for _, step in history.of(StepDone)}
    found, drawn = _ByKind(), ""
    for number, moment, e in operations_of(history):
        if (e.epoch, e.step) == START and not (moment == "saving" and e.rank not in train):
            continue
        if moment == "making" and len(train) > 1:
            continue
        path = patterns[e.path]
        if moment != "renaming" and has_drawn_name(e.path):
            drawn = drawn or (path if moment == "saving" else "")
            if moment != "saving" or path != drawn:
                continue
        place = EpochRank(e.epoch, e.rank)
        found.setdefault((moment, path), {}).setdefault(place, (number, e.step))
    return found


def _in_every_run(
    runs: Sequence[JobProfile], saves: Sequence[EpochRank]
) -> tuple[SaveOperation, ...]:
    """Return the middle of a save, at no known step, at those where every run can be stopped."""
    halves = [p for p in saves if all(p in run.moments["saving"] for run in runs)]
    return (SaveOperation("saving", "", dict.fromkeys(halves, inf)),) if halves else ()


def _ranks(steps: Mapping[EpochRank, int], commits: list[Committed]) -> tuple[int, ...]:
    widest = max((len(commit.metrics) for commit in commits), default=0)
    return tuple(sorted({rank for _, rank in steps} | set(range(widest))))


def _training_over_ns(history: History) -> int:
    """Return the time at which training was over: `fit()` may return long after it."""
    ends = [n for n, _ in history.of(Committed)] or [n for n, _ in history.of(FitReturned)]
    return history.time_ns(ends[-1]) if ends else 0
