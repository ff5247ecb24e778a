"""The base of all events."""

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The base of all events; a class's name is its tag in the journal."""

    @property
    def sentence(self) -> str:
        """The event in one line, for people who read a history."""
        return " ".join(self._text().split())

    def _text(self) -> str:
        raise NotImplementedError


class WorkerEvent(Event, frozen=True, kw_only=True):
    """The base of those that one rank of an attempt caused."""

    attempt: int
    rank: int

    @property
    def worker_label(self) -> str:
        """The rank and its attempt in words."""
        return f"rank {self.rank}, attempt {self.attempt}"


class StepEvent(WorkerEvent, frozen=True, kw_only=True):
    """The base of those that a rank caused at a step; `epoch` and `step` as in `model.trigger`."""

    epoch: int
    step: int

    @property
    def training_place(self) -> str:
        return f"epoch {self.epoch}, step {self.step}"


def describe_losses(losses: tuple[float | str, ...]) -> str:
    """Return losses in words."""
    return ", ".join(str(loss) for loss in losses) or "none"
