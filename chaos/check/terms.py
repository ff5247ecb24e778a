"""The terms of the two launchers, for sentences: the same promise is kept by other means."""

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.model.scenario import Launcher


@dataclass(frozen=True)
class Terms:
    """The words for what starts the workers, and for what a restart continues from."""

    name: str
    controller: str
    #: starts the training
    call: str
    #: is over when training is
    end: str
    #: the process that makes the call
    driver: str
    #: the retry budgets that the launcher knows
    budgets: tuple[str, ...]
    #: the setting that each kind of failure is charged to
    settings: Mapping[str, str]
    #: the point to continue from
    save: str
    #: may be continued from
    whole: str
    #: an epoch that such a point has ended
    ended: str
    saved: str
    end_of_epoch: str

    def place(self, epoch: int, step: int, moment: str) -> str:
        """Return in words the place of a state snapshot."""
        return f"{self.end_of_epoch} {epoch}" if moment == "left" else f"epoch {epoch}, step {step}"


RAY_TRAIN = Terms(
    name="Ray",
    controller="Ray's controller",
    call="fit()",
    end="fit()",
    driver="the script",
    budgets=("failures", "preemptions"),
    settings={"failures": "max_failures", "preemptions": "max_preemption_failures"},
    save="commit",
    whole="what was committed",
    ended="committed",
    saved="committed",
    end_of_epoch="the report of epoch",
)
TORCHRUN = Terms(
    name="torchrun",
    controller="torchrun's agent",
    call="torchrun",
    end="the last worker's end",
    driver="torchrun's agent",
    budgets=("failures",),
    settings=dict.fromkeys(("failures", "preemptions"), "--max-restarts"),
    save="save",
    whole="whole files",
    ended="ended by a save",
    saved="saved",
    end_of_epoch="the end of epoch",
)


def terms_of(launcher: Launcher) -> Terms:
    """Return the terms of a launcher."""
    return TORCHRUN if launcher == "torchrun" else RAY_TRAIN
