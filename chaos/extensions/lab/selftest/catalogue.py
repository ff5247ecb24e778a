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
class ReportLayout:
    """The reports of a job without faults, in order; chaos counts each as an epoch."""

    saves: Saves
    #: each report's optimizer steps
    steps: tuple[int, ...]
    #: those that end an epoch of the job itself
    ends_epoch: tuple[bool, ...]

    @property
    def reports(self) -> int:
        return len(self.steps)

    def compute_sort_key(self, trigger: Trigger) -> tuple[int, int, int]:
        """Return the key that sorts the places of one rank in the order of training."""
        if not isinstance(trigger, AtMoment):
            return trigger.epoch, 0, trigger.step
        saves_first = trigger.moment == "saving" and self.saves == "in its own directory"
        return trigger.epoch, -1 if saves_first else 1 + MOMENTS.index(trigger.moment), 0

    def find_resume_epoch(self, op: Op) -> int:
        """Return the epoch at which a right job resumes after `op` has killed it.

        It is the number of states that were saved whole before. A job with a
        directory of its own saves the state of epoch e after the report of e,
        which is in epoch e + 1 as chaos counts.
        """
        trigger = op.at
        if not isinstance(trigger, AtMoment):
            return trigger.epoch
        if self.saves == "in its own directory":
            return trigger.epoch - 1 if trigger.moment == "saving" else trigger.epoch
        return trigger.epoch + 1 if trigger.moment == "committed" else trigger.epoch


# -- faults that reveal a bug -------------------------------------------------------------------

Reveals: TypeAlias = Callable[[ReportLayout, Op], bool]


def is_never(layout: ReportLayout, op: Op) -> bool:
    """Return False: there is no bug."""
    del layout, op
    return False


def is_after_save(layout: ReportLayout, op: Op) -> bool:
    """Return whether a state was saved, which the bug does not find."""
    return layout.find_resume_epoch(op) >= 1


def is_between_saves(layout: ReportLayout, op: Op) -> bool:
    """Return whether a state was saved, from which training resumes."""
    return 1 <= layout.find_resume_epoch(op) < layout.reports


def is_inside_epoch(layout: ReportLayout, op: Op) -> bool:
    """Return whether the last saved state is of the middle of an epoch."""
    return is_between_saves(layout, op) and not layout.ends_epoch[layout.find_resume_epoch(op) - 1]


def is_inside_save(layout: ReportLayout, op: Op) -> bool:
    """Return whether a rank is writing its state."""
    del layout
    return isinstance(op.at, AtMoment) and op.at.moment == "saving"


def is_missorted(layout: ReportLayout, op: Op) -> bool:
    """Return whether the newest state, named by its step, comes earlier in the order of text."""
    saved_steps = [
        sum(layout.steps[:epoch]) for epoch in range(1, layout.find_resume_epoch(op) + 1)
    ]
    return bool(saved_steps) and max(saved_steps, key=str) != max(saved_steps)


# -- the catalogue ------------------------------------------------------------------------------

InjectionMoment: TypeAlias = Moment | Literal["step"]

IN_REPORTS: tuple[InjectionMoment, ...] = (
    "step",
    "step",  # twice as likely as any other: most of a job's time is spent there
    "saving",
    "upload_begin",
    "upload_end",
    "reported",
    "committed",
)
IN_ITS_OWN: tuple[InjectionMoment, ...] = ("step", "step", "saving", "reported", "committed")


@dataclass(frozen=True)
class CatalogueJob:
    """One train loop, a planted bug or a control."""

    id: str
    #: the name by which its train loop knows it
    title: str
    saves: Saves
    #: decides whether faults can show the bug
    can_reveal: Reveals = is_never
    #: the checks of which one must come first
    first_checks: tuple[str, ...] = ()
    #: the parts of the state of which one must be named as well
    named_parts: tuple[str, ...] = ()
    #: where its faults are drawn from
    places: tuple[InjectionMoment, ...] = IN_REPORTS
    #: the ranks that write files
    saving_ranks: tuple[int, ...] = (0, 1)
    #: the limit of a run with a fault, if the bug makes the job hang
    run_s: float = 60.0
    #: the range that their number is drawn from
    epochs: tuple[int, int] = (3, 5)
    #: the epochs of a job that stops early
    stops_after: int | None = None

    @property
    def is_control(self) -> bool:
        """Whether it has no bug."""
        return self.can_reveal is is_never

    @property
    def slug(self) -> str:
        """Its title as a file is named."""
        return self.title.replace(",", "").replace(" ", "_")

    @property
    def train_loop(self) -> str:
        """The name of the function in a scenario."""
        file = "own_directory" if self.saves == "in its own directory" else "in_reports"
        return f"chaos.extensions.lab.selftest.planted.{file}:train_loop"

    def args(self, variant: Variant) -> dict[str, str | int]:
        """Return the config of its train loop."""
        config = {"job": self.title, **variant.model_dump()}
        return config | (
            {"cadence": variant.steps_per_epoch} if self.saves == "every epoch" else {}
        )

    def layout(self, variant: Variant) -> ReportLayout:
        """Return its reports and steps with these choices."""
        epochs = min(variant.epochs, self.stops_after or variant.epochs)
        length = cadence = variant.steps_per_epoch
        if self.saves == "every few steps":
            cadence = variant.cadence
        full_parts, remainder = divmod(length, cadence)
        parts = (cadence,) * full_parts + ((remainder,) if remainder else ())
        ends_epoch = (False,) * (len(parts) - 1) + (True,)
        return ReportLayout(self.saves, parts * epochs, ends_epoch * epochs)

    def has_revealing_fault(self, variant: Variant, ops: Sequence[Op]) -> bool:
        """Return whether one of these faults can show the bug."""
        layout = self.layout(variant)
        return any(self.can_reveal(layout, op) for op in ops)


EPOCHS: Saves = "every epoch"
STEPS: Saves = "every few steps"
OWN: Saves = "in its own directory"

CONTROLS: tuple[CatalogueJob, ...] = (
    CatalogueJob("N01", "saves every epoch", EPOCHS),
    CatalogueJob("N02", "saves mid-epoch", STEPS),
    CatalogueJob("N03", "saves atomically, itself", OWN, places=IN_ITS_OWN, saving_ranks=(0,)),
    CatalogueJob("N04", "stops early", EPOCHS, epochs=(6, 8), stops_after=5),
)

_MOMENTUM = ("optimizer.exp_avg", "optimizer.momentum_buffer")
_IN_SAVES: tuple[InjectionMoment, ...] = ("saving", "saving", "step")
BUGS: tuple[CatalogueJob, ...] = (
    CatalogueJob(
        "Z01", "forgets its checkpoint", EPOCHS, is_after_save, ("resume-point", "lost-work")
    ),
    CatalogueJob("Z03", "repeats the finished epoch", EPOCHS, is_after_save, ("cursor", "samples")),
    CatalogueJob("Z05", "restarts the epoch", STEPS, is_inside_epoch, ("cursor", "samples")),
    CatalogueJob("Z07", "loses momentum", EPOCHS, is_between_saves, ("state",), _MOMENTUM),
    CatalogueJob(
        "Z09", "restarts its schedule", EPOCHS, is_between_saves, ("state",), ("schedule",)
    ),
    CatalogueJob(
        "Z11", "forgets its random state", EPOCHS, is_between_saves, ("state",), ("rng.torch",)
    ),
    CatalogueJob(
        "Z13", "resets its average", EPOCHS, is_between_saves, ("state",), ("declared.ema",)
    ),
    CatalogueJob("Z15", "reshuffles from its start", EPOCHS, is_between_saves, ("sample-order",)),
    CatalogueJob(
        "Z17",
        "trusts a torn file",
        OWN,
        is_inside_save,
        ("checkpoints", "retry-budget"),
        places=_IN_SAVES,
        saving_ranks=(0,),
    ),
    CatalogueJob(
        "Z19",
        "sorts names as text",
        OWN,
        is_missorted,
        ("resume-point",),
        places=IN_ITS_OWN,
        saving_ranks=(0,),
        epochs=(4, 5),  # three of four steps are over before a step of two digits is searched for
    ),
    CatalogueJob(
        "Z21",
        "saves without a barrier",
        OWN,
        is_inside_save,
        ("agreement",),
        places=_IN_SAVES,
        run_s=12.0,
    ),
    CatalogueJob("Z23", "restarts its log", EPOCHS, is_between_saves, ("metrics",)),
)

EXHIBITS: tuple[CatalogueJob, ...] = (*BUGS, *CONTROLS)
