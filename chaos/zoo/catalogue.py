"""Every train loop of the zoo: what is wrong with it, and who should say so first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.model.plan import Op
from chaos.model.trigger import Moment
from chaos.zoo import reveal
from chaos.zoo.layout import Layout, Saves, Variant, layout

Place: TypeAlias = Moment | Literal["step"]

IN_REPORTS: tuple[Place, ...] = (
    "step",
    "step",  # twice as likely as any other: most of a job's time is here
    "saving",
    "upload_begin",
    "upload_end",
    "reported",
    "committed",
)
IN_ITS_OWN: tuple[Place, ...] = ("step", "step", "saving", "reported", "committed")


@dataclass(frozen=True)
class Exhibit:
    """One train loop, a planted bug or a control.

    `like` is the control that a bug differs from. `first` names the checks of
    which one must come first, `parts` the parts of the state of which one
    must be named as well. `places` are drawn from; `savers` are the ranks
    that write files; `reveals` says which strikes can show the bug. `run_s`
    bounds a struck run, where the bug makes the job hang. `epochs` is the
    range that is drawn from, `stops_after` the epochs of a job that stops
    early.
    """

    id: str
    title: str
    module: str
    saves: Saves
    like: str
    first: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    places: tuple[Place, ...] = IN_REPORTS
    savers: tuple[int, ...] = (0, 1)
    reveals: reveal.Rule = reveal.never
    run_s: float = 60.0
    epochs: tuple[int, int] = (3, 5)
    stops_after: int | None = None

    @property
    def is_control(self) -> bool:
        """Whether there is nothing wrong with it."""
        return self.like == self.id

    @property
    def train_loop(self) -> str:
        """The function, as a scenario names it."""
        return f"chaos.zoo.{self.module}:train_loop"

    def layout(self, variant: Variant) -> Layout:
        """Give its reports and steps with these choices."""
        return layout(self.saves, variant, epochs_max=self.stops_after)

    def is_revealed_by(self, variant: Variant, ops: Sequence[Op]) -> bool:
        """Say whether one of these strikes can show the bug."""
        course = self.layout(variant)
        return any(self.reveals(course, op) for op in ops)


CONTROLS: tuple[Exhibit, ...] = (
    Exhibit("N01", "saves every epoch", "saves_every_epoch", "every epoch", like="N01"),
    Exhibit("N02", "saves mid-epoch", "saves_mid_epoch", "every few steps", like="N02"),
    Exhibit(
        "N03",
        "saves atomically, itself",
        "saves_atomically",
        "in its own directory",
        like="N03",
        places=IN_ITS_OWN,
        savers=(0,),
    ),
    Exhibit(
        "N04",
        "stops early",
        "stops_early",
        "every epoch",
        like="N04",
        epochs=(6, 8),
        stops_after=5,
    ),
)

BUGS: tuple[Exhibit, ...] = (
    Exhibit(
        "Z01",
        "forgets its checkpoint",
        "forgets_checkpoint",
        "every epoch",
        like="N01",
        first=("resume-point", "lost-work"),
        reveals=reveal.after_a_save,
    ),
    Exhibit(
        "Z03",
        "repeats the finished epoch",
        "repeats_epoch",
        "every epoch",
        like="N01",
        first=("cursor", "samples"),
        reveals=reveal.after_a_save,
    ),
    Exhibit(
        "Z05",
        "restarts the epoch",
        "restarts_epoch",
        "every few steps",
        like="N02",
        first=("cursor", "samples"),
        reveals=reveal.inside_an_epoch,
    ),
    Exhibit(
        "Z07",
        "loses momentum",
        "loses_momentum",
        "every epoch",
        like="N01",
        first=("state",),
        parts=("optimizer.exp_avg", "optimizer.momentum_buffer"),
        reveals=reveal.between_saves,
    ),
    Exhibit(
        "Z09",
        "restarts its schedule",
        "restarts_schedule",
        "every epoch",
        like="N01",
        first=("state",),
        parts=("schedule",),
        reveals=reveal.between_saves,
    ),
    Exhibit(
        "Z11",
        "forgets its random state",
        "forgets_random_state",
        "every epoch",
        like="N01",
        first=("state",),
        parts=("rng.torch",),
        reveals=reveal.between_saves,
    ),
    Exhibit(
        "Z13",
        "resets its average",
        "resets_average",
        "every epoch",
        like="N01",
        first=("state",),
        parts=("declared.ema",),
        reveals=reveal.between_saves,
    ),
    Exhibit(
        "Z15",
        "reshuffles from its start",
        "reshuffles_from_start",
        "every epoch",
        like="N01",
        first=("sample-order",),
        reveals=reveal.between_saves,
    ),
    Exhibit(
        "Z17",
        "trusts a torn file",
        "trusts_torn_file",
        "in its own directory",
        like="N03",
        first=("checkpoints", "retry-budget"),
        places=("saving", "saving", "step"),
        savers=(0,),
        reveals=reveal.inside_a_save,
    ),
    Exhibit(
        "Z19",
        "sorts names as text",
        "sorts_as_text",
        "in its own directory",
        like="N03",
        first=("resume-point",),
        places=IN_ITS_OWN,
        savers=(0,),
        reveals=reveal.after_more_digits,
        epochs=(4, 5),  # three of four steps are over before a step of two digits is looked for
    ),
    Exhibit(
        "Z21",
        "saves without a barrier",
        "saves_without_barrier",
        "in its own directory",
        like="N03",
        first=("agreement",),
        places=("saving", "saving", "step"),
        reveals=reveal.inside_a_save,
        run_s=12.0,
    ),
    Exhibit(
        "Z23",
        "restarts its log",
        "restarts_log",
        "every epoch",
        like="N01",
        first=("metrics",),
        reveals=reveal.between_saves,
    ),
)

ZOO: tuple[Exhibit, ...] = (*BUGS, *CONTROLS)
