"""The triggers: places in training at which an op begins.

A place is counted as the worker counts it. `epoch` is the number of reports that every rank has
made in the surviving lineage, so 0 is the first. `step` is the number of optimizer steps since the
last report, so `step: 5` is the moment after the fifth step of that epoch.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag, model_validator

from chaos.model.paths import NAME_BY_CONTENT, TEMPFILE_NAME
from chaos.record import Record

Moment: TypeAlias = Literal[
    "validating",
    "saving",
    "making",
    "opening",
    "renaming",
    "linking",
    "removing",
    "putting",
    "completing",
    "upload_begin",
    "upload_end",
    "reported",
    "committed",
]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
PARTS_MAX = 6  # of the end of a path that is compared with others
# Those inside a save of the job's own.
SAVE_MOMENTS: tuple[Moment, ...] = (
    "saving",
    "making",
    "opening",
    "renaming",
    "linking",
    "removing",
    "putting",
    "completing",
)
# Those of an object in a store: its request is about to be sent.
OBJECT_MOMENTS: tuple[Moment, ...] = ("putting", "completing")


# The key that distinguishes one kind of place from the others.
KINDS = ("step", "moment", "recovering_from", "starting", "state", "seconds")

# The stages of an attempt that continues after a fault.
Stage: TypeAlias = Literal["start", "loading", "first_step"]
STAGES: tuple[Stage, ...] = get_args(Stage)

# Of Ray 2.60's `TrainControllerState`; a run begins in the first without a change of state.
State: TypeAlias = Literal[
    "SCHEDULING",
    "RUNNING",
    "PREEMPTING",
    "RESTARTING",
    "RESIZING",
    "RESCHEDULING",
    "SHUTTING_DOWN",
    "ERRORED",
    "FINISHED",
    "ABORTED",
]
STATES: tuple[State, ...] = get_args(State)

# Every key of a place, in any of its kinds.
PLACE_WORDS = ("at", "epoch", *KINDS, "path", "attempt", "stage", "at_launch", "visit", "rank")

ANY_RANK = "left out: drawn from the seed"
ANY_FILE = (
    "in a save: the end of the file's path, such as `latest` or `epoch_*/model.pt`; left out: any"
)
ONE_ATTEMPT = "only there; left out: in the first attempt that comes to the place"


class AtStep(Record):
    """After optimizer step `step` of epoch `epoch` on rank `rank`.

    The rank is held there until every earlier epoch is committed, so a restart
    has one right answer: the commit of epoch `epoch - 1`.
    """

    epoch: NonNegativeInt
    step: PositiveInt
    attempt: NonNegativeInt | None = Field(default=None, description=ONE_ATTEMPT)
    rank: NonNegativeInt | None = Field(default=None, description=ANY_RANK)

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch}, step {self.step}{_describe_attempt(self.attempt)}, rank "
            f"{self.rank}"
        )


class AtMoment(Record):
    """At one moment of validation, save or report in epoch `epoch`, on rank `rank`.

    `validating`: after a step of that epoch, the trained model is about to be called for the first
    time in evaluation mode and without gradients. `saving`: the first half of the first file that
    `torch.save` writes in that epoch is on disk, and the rest is not. `making`: the first folder
    that the job makes in that epoch is there, and empty. `opening`: the first file
    that the job opens in that epoch to write it anew is there, and empty. `renaming`: the first
    file or folder that the job renames in that epoch has its old name, and the new one is not
    there. `linking`: the first link that the job makes in that epoch, symbolic or hard, is not
    there yet; one of that name may have been removed for it. `removing`: the first file, link or
    folder that the job removes in that epoch is still there; an object likewise. `putting`: the
    first object that the job puts, or copies, into an object store in that epoch is not there, or
    is the older one. `completing`: likewise of an object that comes in parts, of which all are
    sent. `upload_begin`: the checkpoint's
    upload is about to begin. `upload_end`: every file is written and `report()` has not returned.
    `reported`: `report()` has returned, and the controller, held, has not committed. `committed`:
    the controller has committed.
    """

    epoch: NonNegativeInt
    moment: Moment
    path: str | None = Field(default=None, min_length=1, description=ANY_FILE)
    attempt: NonNegativeInt | None = Field(default=None, description=ONE_ATTEMPT)
    rank: NonNegativeInt | None = Field(default=None, description=ANY_RANK)

    @model_validator(mode="after")
    def _validate_path(self) -> "AtMoment":
        if self.path is not None and self.moment not in SAVE_MOMENTS:
            raise ValueError(f"path is for the moments {', '.join(SAVE_MOMENTS)}")
        return self

    def matches_path(self, path: str) -> bool:
        """Return whether a file is one that it names, or would be if it named none."""
        return self.path is None or PurePosixPath(path).match(self.path)

    def __str__(self) -> str:
        file = "" if self.path is None else f" {self.path}"
        return (
            f"epoch {self.epoch}, {self.moment}{file}{_describe_attempt(self.attempt)}, rank "
            f"{self.rank}"
        )


class UnplacedTrigger(Record):
    """A place before, beside or between the epochs and steps: it waits for no commit."""

    epoch: ClassVar[int] = 0
    step: ClassVar[int] = 0


class AtRecovery(UnplacedTrigger):
    """In the attempt after the one that another op hit, before its first step is done.

    `start`: the train function begins, and has neither read its checkpoint nor made a step.
    `loading`: inside the first load of a file that an earlier attempt has saved, as with
    `torch.load`, or of a folder with `torch.distributed.checkpoint`. `first_step`: its first step
    begins, and all loading is done.

    It lies before every epoch and step of its attempt.
    """

    recovering_from: NonNegativeInt = Field(
        description="the number of an earlier entry of faults, from 0"
    )
    stage: Stage = Field(default="start", description="how far the rank has come by then")
    rank: NonNegativeInt | None = Field(default=None, description=ANY_RANK)

    def __str__(self) -> str:
        stage_text = "" if self.stage == "start" else f", {self.stage}"
        return f"the recovery from op {self.recovering_from}{stage_text}, rank {self.rank}"


class AtStart(UnplacedTrigger):
    """As the train function begins in one attempt, before its first step; the first is 0."""

    starting: NonNegativeInt = Field(description="the attempt, from 0")
    at_launch: bool = Field(
        default=False,
        description="a moment earlier: while Ray's controller waits for the worker to start the "
        "train function's thread",
    )
    rank: NonNegativeInt | None = Field(default=None, description=ANY_RANK)

    def __str__(self) -> str:
        moment_name = "launch" if self.at_launch else "start"
        return f"the {moment_name} of attempt {self.starting}, rank {self.rank}"


class AtState(UnplacedTrigger):
    """As Ray Train's controller enters a state, for the `visit`-th time.

    The controller is held in it until the injection is over, and no worker is held: the progress of
    training by then is not planned. `rank` names the target among the workers that the controller
    started last.
    """

    state: State
    visit: PositiveInt = 1
    rank: NonNegativeInt | None = Field(default=None, description=ANY_RANK)

    def __str__(self) -> str:
        return f"{self.state}, visit {self.visit}, rank {self.rank}"


class AtTime(UnplacedTrigger):
    """Some seconds after the first workers have started, wherever training is then.

    No process is held: two runs of such a plan need not be the same run.
    """

    seconds: float = Field(gt=0, le=86_400)
    rank: NonNegativeInt | None = Field(default=None, description=ANY_RANK)

    def __str__(self) -> str:
        return f"{self.seconds:g} s after the start, rank {self.rank}"


def build_path_pattern(path: str, parts: int = 2) -> str:
    """Return the last parts of a file's path, as `AtMoment` takes them, for any run and epoch.

    Its numbers, and a name that was drawn, are `*`. By itself it is the name in its folder.
    """
    name = TEMPFILE_NAME.sub("/tmp*", f"/{find_path_end(path, parts)}")  # noqa: S108 - a pattern
    name = NAME_BY_CONTENT.sub("*", re.sub(r"[][?]", "?", name))
    return re.sub(r"\d+", "*", name).lstrip("/")


def build_path_patterns(runs: Sequence[Collection[str]]) -> dict[str, str]:
    """Return the pattern of each path in some runs of one job.

    Two files of one name, in folders of one name, get longer patterns, which tell them apart: if
    every run has the same. Folders that have another name in each run tell nothing apart.
    """
    return {
        path: pattern
        for path_group in _group_by_pattern(runs, 2).values()
        for path, pattern in _split_by_pattern(path_group, 2)
    }


def _split_by_pattern(runs: Sequence[Collection[str]], parts: int) -> Iterator[tuple[str, str]]:
    """Yield paths of one pattern, each with one of so many parts or more."""
    for part_count in range(parts + 1, PARTS_MAX + 1):
        longer_groups = _group_by_pattern(runs, part_count).values()
        if len(longer_groups) > 1 and all(map(all, longer_groups)):
            for path_group in longer_groups:
                yield from _split_by_pattern(path_group, part_count)
            return
    yield from ((path, build_path_pattern(path, parts)) for run in runs for path in run)


def _group_by_pattern(runs: Sequence[Collection[str]], parts: int) -> dict[str, list[list[str]]]:
    """Return the paths of each run, by their patterns."""
    groups: dict[str, list[list[str]]] = {}
    for number, run in enumerate(runs):
        for path in run:
            groups.setdefault(build_path_pattern(path, parts), [[] for _ in runs])[number].append(
                path
            )
    return groups


def has_drawn_name(path: str) -> bool:
    """Return whether the name of a file, or of its folder, is one that `tempfile` drew."""
    return TEMPFILE_NAME.search(f"/{find_path_end(path, 2)}") is not None


def find_path_end(path: str, parts: int) -> str:
    """Return the last parts of a path."""
    return "/".join(PurePosixPath(path).parts[-parts:]).lstrip("/")


def find_only_attempt(trigger: "Trigger") -> int | None:
    """Return the one attempt that a trigger belongs to, None where any will do."""
    match trigger:
        case AtStart():
            return trigger.starting
        case AtStep() | AtMoment():
            return trigger.attempt
        case _:
            return None


def _describe_attempt(attempt: int | None) -> str:
    return "" if attempt is None else f" of attempt {attempt}"


def _find_kind(value: object) -> str:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", ())
    return next((kind for kind in KINDS if kind in keys), "step")


Trigger: TypeAlias = Annotated[
    Annotated[AtStep, Tag("step")]
    | Annotated[AtMoment, Tag("moment")]
    | Annotated[AtRecovery, Tag("recovering_from")]
    | Annotated[AtStart, Tag("starting")]
    | Annotated[AtState, Tag("state")]
    | Annotated[AtTime, Tag("seconds")],
    Discriminator(_find_kind),
]
