"""What a clean run shows of a job: how long it is, where it saves, what it is set to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.model.event import (
    Committed,
    FileSaveBegun,
    FitCalled,
    FitReturned,
    ReportBegun,
    StepDone,
    UploadBegun,
    UploadEnded,
)
from chaos.model.history import History


@dataclass(frozen=True)
class Extent:
    """Everything that decides which places a job has.

    `steps` counts optimizer steps by (epoch, rank), those after the last report
    included; `epochs` are the reports that were committed, `saved` those of
    them that carried a checkpoint, `uploads` the (epoch, rank) of each upload,
    `saves` those in which a file was written with `torch.save`.
    `left_s` says how long training went on after an epoch's last step, or after
    its report where no step is seen.
    `settings` were in force at `fit()`, `replaced` holds what the script had
    where chaos set something else. `loads` are the ranks that were seen, in
    a struck run, to load after a restart what an earlier attempt had saved.
    """

    ranks: tuple[int, ...]
    epochs: tuple[int, ...]
    saved: tuple[int, ...]
    uploads: tuple[tuple[int, int], ...]
    saves: tuple[tuple[int, int], ...]
    steps: Mapping[tuple[int, int], int]
    left_s: Mapping[int, float]
    seconds: float
    settings: Mapping[str, Any]
    replaced: Mapping[str, Any]
    loads: tuple[int, ...] = ()

    @property
    def step_places(self) -> int:
        """How many steps all ranks make together: each is a place."""
        return sum(self.steps.values())

    @property
    def epoch_last(self) -> int:
        """The last epoch in which anything was seen."""
        return max((*self.epochs, *(epoch for epoch, _ in self.steps)), default=0)

    @property
    def has_checkpoints(self) -> bool:
        """Whether any report carried a checkpoint."""
        return bool(self.saved)

    @property
    def first_saved(self) -> int | None:
        """The first epoch that leaves something to go on from, a file of the job's own included."""
        return min(self.saved or (epoch for epoch, _ in self.saves), default=None)

    @property
    def is_elastic(self) -> bool:
        """Whether the script lets Ray go on with fewer workers."""
        return isinstance(self.own("num_workers"), list | tuple)

    @property
    def uploaders(self) -> tuple[int, ...]:
        """The ranks on which an upload was seen."""
        return tuple(sorted({rank for _, rank in self.uploads}))

    def own(self, setting: str) -> Any:  # noqa: ANN401 (settings are of any type)
        """Give a setting as the script has it, None where it is not known."""
        return self.replaced.get(setting, self.settings.get(setting))


def extent(history: History) -> Extent:
    """Measure a job by the history of a run in which nothing was done to it."""
    steps: dict[tuple[int, int], int] = {}
    last_ns: dict[int, int] = {}
    for number, step in history.of(StepDone):
        key = (step.epoch, step.rank)
        steps[key] = max(steps.get(key, 0), step.step)
        last_ns[step.epoch] = history.time_ns(number)
    for number, begun in history.of(ReportBegun) if not steps else ():
        last_ns[begun.epoch] = history.time_ns(number)
    commits = [event for _, event in history.of(Committed)]
    uploads = {(e.epoch, e.rank) for _, e in history.of(UploadBegun)}
    uploads |= {(e.epoch, e.rank) for _, e in history.of(UploadEnded)}
    over_ns = _training_over_ns(history)
    called = next((event for _, event in history.of(FitCalled)), None)
    return Extent(
        ranks=_ranks(steps, commits),
        epochs=tuple(sorted({commit.epoch for commit in commits})),
        saved=tuple(sorted({c.epoch for c in commits if c.checkpoint is not None})),
        uploads=tuple(sorted(uploads)),
        saves=tuple(sorted({(e.epoch, e.rank) for _, e in history.of(FileSaveBegun)})),
        steps=dict(sorted(steps.items())),
        left_s={epoch: (over_ns - at_ns) / 1e9 for epoch, at_ns in sorted(last_ns.items())},
        seconds=(history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0,
        settings=called.settings if called else {},
        replaced=called.replaced if called else {},
    )


def _ranks(steps: Mapping[tuple[int, int], int], commits: list[Committed]) -> tuple[int, ...]:
    widest = max((len(commit.metrics) for commit in commits), default=0)
    return tuple(sorted({rank for _, rank in steps} | set(range(widest))))


def _training_over_ns(history: History) -> int:
    """Give when training was over: `fit()` may return long after the last report."""
    ends = [n for n, _ in history.of(Committed)] or [n for n, _ in history.of(FitReturned)]
    return history.time_ns(ends[-1]) if ends else 0
