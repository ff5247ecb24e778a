"""The planted bugs and controls: layout, bug, faults that reveal it, checks that must find it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import PositiveInt

from chaos.model.plan import Op
from chaos.model.trigger import MOMENTS, AtMoment, Moment, Trigger
from chaos.record import Record

# The times and places of a job's saves: in reported checkpoints, or in a directory of its own.
Saves: TypeAlias = Literal["every epoch", "every few steps", "in its own directory"]


class Variant(Record):
    """The choices that are drawn for a job: its `train_loop_config`."""

    epochs: PositiveInt
    steps_per_epoch: PositiveInt
    cadence: PositiveInt
    seed: int
    batch_size: PositiveInt
    optimizer: Literal["adam", "sgd"]


@dataclass(frozen=True)
class Layout:
    """The reports of a job without faults, in order; chaos counts each as an epoch."""

    saves: Saves
    #: each report's optimizer steps
    steps: tuple[int, ...]
    #: those that end an epoch of the job itself
    ended: tuple[bool, ...]

    @property
    def reports(self) -> int:
        return len(self.steps)

    def passed(self, at: Trigger) -> tuple[int, int, int]:
        """Return the key that sorts the places of one rank in the order of training."""
        if not isinstance(at, AtMoment):
            return at.epoch, 0, at.step
        saves_first = at.moment == "saving" and self.saves == "in its own directory"
        return at.epoch, -1 if saves_first else 1 + MOMENTS.index(at.moment), 0

    def resumes_at(self, op: Op) -> int:
        """Return the epoch at which a right job resumes after `op` has killed it.

        It is the number of states that were saved whole before. A job with a
        directory of its own saves the state of epoch e after the report of e,
        which is in epoch e + 1 as chaos counts.
        """
        at = op.at
        if not isinstance(at, AtMoment):
            return at.epoch
        if self.saves == "in its own directory":
            return at.epoch - 1 if at.moment == "saving" else at.epoch
        return at.epoch + 1 if at.moment == "committed" else at.epoch


# -- faults that reveal a bug -------------------------------------------------------------------

Reveals: TypeAlias = Callable[[Layout, Op], bool]


def never(layout: Layout, op: Op) -> bool:
    """Return False: there is no bug."""
    del layout, op
    return False


def after_a_save(layout: Layout, op: Op) -> bool:
    """Return whether a state was saved, which the bug does not find."""
    return layout.resumes_at(op) >= 1


def between_saves(layout: Layout, op: Op) -> bool:
    """Return whether a state was saved, from which training resumes."""
    return 1 <= layout.resumes_at(op) < layout.reports


def inside_an_epoch(layout: Layout, op: Op) -> bool:
    """Return whether the last saved state is of the middle of an epoch."""
    return between_saves(layout, op) and not layout.ended[layout.resumes_at(op) - 1]


def inside_a_save(layout: Layout, op: Op) -> bool:
    """Return whether a rank is writing its state."""
    del layout
    return isinstance(op.at, AtMoment) and op.at.moment == "saving"


def after_more_digits(layout: Layout, op: Op) -> bool:
    """Return whether the newest state, named by its step, comes earlier in the order of text."""
    saved = [sum(layout.steps[:epoch]) for epoch in range(1, layout.resumes_at(op) + 1)]
    return bool(saved) and max(saved, key=str) != max(saved)


# -- the catalogue ------------------------------------------------------------------------------

Place: TypeAlias = Moment | Literal["step"]

IN_REPORTS: tuple[Place, ...] = (
    "step",
    "step",  # twice as likely as any other: most of a job's time is spent there
    "saving",
    "upload_begin",
    "upload_end",
    "reported",
    "committed",
)
IN_ITS_OWN: tuple[Place, ...] = ("step", "step", "saving", "reported", "committed")


@dataclass(frozen=True)
class Exhibit:
    """One train loop, a planted bug or a control."""

    id: str
    #: the name by which its train loop knows it
    title: str
    saves: Saves
    #: decides whether faults can show the bug
    reveals: Reveals = never
    #: the checks of which one must come first
    first: tuple[str, ...] = ()
    #: the parts of the state of which one must be named as well
    parts: tuple[str, ...] = ()
    #: where its faults are drawn from
    places: tuple[Place, ...] = IN_REPORTS
    #: the ranks that write files
    savers: tuple[int, ...] = (0, 1)
    #: the limit of a run with a fault, if the bug makes the job hang
    run_s: float = 60.0
    #: the range that their number is drawn from
    epochs: tuple[int, int] = (3, 5)
    #: the epochs of a job that stops early
    stops_after: int | None = None

    @property
    def is_control(self) -> bool:
        """Whether it has no bug."""
        return self.reveals is never

    @property
    def slug(self) -> str:
        """Its title as a file is named."""
        return self.title.replace(",", "").replace(" ", "_")

    @property
    def train_loop(self) -> str:
        """The name of the function in a scenario."""
        file = "own_directory" if self.saves == "in its own directory" else "in_reports"
        return f"chaos.selftest.planted.{file}:train_loop"

    def args(self, variant: Variant) -> dict[str, str | int]:
        """Return the config of its train loop."""
        chosen = {"job": self.title, **variant.model_dump()}
        return chosen | (
            {"cadence": variant.steps_per_epoch} if self.saves == "every epoch" else {}
        )

    def layout(self, variant: Variant) -> Layout:
        """Return its reports and steps with these choices."""
        epochs = min(variant.epochs, self.stops_after or variant.epochs)
        length = cadence = variant.steps_per_epoch
        if self.saves == "every few steps":
            cadence = variant.cadence
        whole, rest = divmod(length, cadence)
        parts = (cadence,) * whole + ((rest,) if rest else ())
        ended = (False,) * (len(parts) - 1) + (True,)
        return Layout(self.saves, parts * epochs, ended * epochs)

    def is_revealed_by(self, variant: Variant, ops: Sequence[Op]) -> bool:
        """Return whether one of these faults can show the bug."""
        layout = self.layout(variant)
        return any(self.reveals(layout, op) for op in ops)


EPOCHS: Saves = "every epoch"
STEPS: Saves = "every few steps"
OWN: Saves = "in its own directory"

CONTROLS: tuple[Exhibit, ...] = (
    Exhibit("N01", "saves every epoch", EPOCHS),
    Exhibit("N02", "saves mid-epoch", STEPS),
    Exhibit("N03", "saves atomically, itself", OWN, places=IN_ITS_OWN, savers=(0,)),
    Exhibit("N04", "stops early", EPOCHS, epochs=(6, 8), stops_after=5),
)

_MOMENTUM = ("optimizer.exp_avg", "optimizer.momentum_buffer")
_IN_SAVES: tuple[Place, ...] = ("saving", "saving", "step")
BUGS: tuple[Exhibit, ...] = (
    Exhibit("Z01", "forgets its checkpoint", EPOCHS, after_a_save, ("resume-point", "lost-work")),
    Exhibit("Z03", "repeats the finished epoch", EPOCHS, after_a_save, ("cursor", "samples")),
    Exhibit("Z05", "restarts the epoch", STEPS, inside_an_epoch, ("cursor", "samples")),
    Exhibit("Z07", "loses momentum", EPOCHS, between_saves, ("state",), _MOMENTUM),
    Exhibit("Z09", "restarts its schedule", EPOCHS, between_saves, ("state",), ("schedule",)),
    Exhibit("Z11", "forgets its random state", EPOCHS, between_saves, ("state",), ("rng.torch",)),
    Exhibit("Z13", "resets its average", EPOCHS, between_saves, ("state",), ("declared.ema",)),
    Exhibit("Z15", "reshuffles from its start", EPOCHS, between_saves, ("sample-order",)),
    Exhibit(
        "Z17",
        "trusts a torn file",
        OWN,
        inside_a_save,
        ("checkpoints", "retry-budget"),
        places=_IN_SAVES,
        savers=(0,),
    ),
    Exhibit(
        "Z19",
        "sorts names as text",
        OWN,
        after_more_digits,
        ("resume-point",),
        places=IN_ITS_OWN,
        savers=(0,),
        epochs=(4, 5),  # three of four steps are over before a step of two digits is searched for
    ),
    Exhibit(
        "Z21",
        "saves without a barrier",
        OWN,
        inside_a_save,
        ("agreement",),
        places=_IN_SAVES,
        run_s=12.0,
    ),
    Exhibit("Z23", "restarts its log", EPOCHS, between_saves, ("metrics",)),
)

EXHIBITS: tuple[Exhibit, ...] = (*BUGS, *CONTROLS)
