"""What a job's files hold, and the files that it writes by other means than `torch.save`."""

from typing import Literal

import msgspec

from chaos.model.events.base import WorkerEvent


class SavedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of what a job saved, by its dotted name: empty where there is one in all.

    `kind`: `numbers` have a point (tensors, floats), `counts` have none,
    `words` are texts and flags, `random` is a generator's state. `size` and
    `count` as in `Component`; `digest` is empty where it is too large to look at.
    """

    name: str
    kind: Literal["numbers", "counts", "words", "random"]
    digest: str
    size: float | str | None = None
    count: int = 1


class FileWritten(WorkerEvent, frozen=True, kw_only=True):
    """A file as a rank left it, which it had opened for writing by other means than a saver's.

    `epoch` and `step` are where that began; it is looked at when a report is
    entered, and when the train function ends. `parts`: what it holds, where
    that can be read without running anything of it.
    """

    epoch: int
    step: int
    path: str
    digest: str
    bytes: int
    parts: tuple[SavedPart, ...] = ()

    def _text(self) -> str:
        return f"{self.who}: wrote {self.path}, {self.bytes} bytes"


class FileRenamed(WorkerEvent, frozen=True, kw_only=True):
    """A rank put a file or a folder that it had written into its place."""

    epoch: int
    step: int
    path: str
    to: str

    def _text(self) -> str:
        return f"{self.who}: renamed {self.path} to {self.to}"
