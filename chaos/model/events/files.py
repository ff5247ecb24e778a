"""The content of a job's files, and the files that it writes by other means than `torch.save`."""

from typing import Literal

import msgspec

from chaos.model.events.base import StepEvent, WorkerEvent


class SavedPart(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a saved file.

    Where the file itself is a mapping of tensors, the first entry has `tensors` of all.
    """

    #: dotted; empty for the only entry
    name: str
    #: `numbers` have a point (tensors, floats), `counts` have none, `words` are texts and flags,
    #: `random` is a generator's state
    kind: Literal["numbers", "counts", "words", "random"]
    #: empty where the entry is too large to read
    digest: str
    #: as in `Component`
    size: float | str | None = None
    #: likewise
    count: int = 1
    #: the first of its own names, where it has names (of a model's state, that of its first tensor)
    first: str = ""
    #: of an entry that holds tensors by name, a digest of those with a point, made as a model's is,
    #: without running statistics
    tensors: str = ""
    #: their type, if they have one
    dtype: str = ""
    #: the digest as float32, where they have fewer bits
    widened: str = ""


class FileWritten(StepEvent, frozen=True, kw_only=True):
    """A file as a rank left it, opened for writing by other means than a saver's.

    `epoch` and `step` are the place where that began. The file is read when a report is entered,
    and when the train function ends.
    """

    path: str
    digest: str
    bytes: int
    #: its entries, if they can be read without running any code of it
    parts: tuple[SavedPart, ...] = ()

    def _text(self) -> str:
        return f"{self.worker_label}: wrote {self.path}, {self.bytes} bytes"


class FileRenamed(StepEvent, frozen=True, kw_only=True):
    """A rank put a file or a folder that it had written into its place."""

    path: str
    to: str

    def _text(self) -> str:
        return f"{self.worker_label}: renamed {self.path} to {self.to}"


_VERBS = {
    "making": "made",
    "opening": "opened anew",
    "linking": "linked",
    "removing": "removed",
    "putting": "put",
    "completing": "completed the parts of",
}


class FileTouched(StepEvent, frozen=True, kw_only=True):
    """A rank was about to change what a name stands for: the first such file of a step.

    Files whose names differ in their numbers alone count as one.
    """

    #: `making` is of a folder; `opening` empties the file, or makes it; a link is symbolic or hard;
    #: `putting` and `completing` are of an object in a store
    operation: Literal["making", "opening", "linking", "removing", "putting", "completing"] = (
        msgspec.field(name="how")
    )
    path: str
    #: what a link leads to, or an object is copied from
    to: str = ""

    def _text(self) -> str:
        target = f" to {self.to}" if self.to else ""
        verb = _VERBS[self.operation]
        return f"{self.worker_label}: {verb} {self.path}{target}"


class FileCopied(StepEvent, frozen=True, kw_only=True):
    """A rank has written a whole copy of a file that was saved in this run.

    `epoch` and `step` are the place at which the content was saved.
    """

    path: str
    digest: str

    def _text(self) -> str:
        return f"{self.worker_label}: copied what was saved at {self.training_place} to {self.path}"


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was saved, or copied, and was not seen to be removed."""

    path: str
    #: empty for a file that was not seen to be saved and lies in a numbered folder beside one that
    #: was
    digest: str
    #: `there`: with the content that `digest` stands for; `gone`: no longer, or with another
    #: content; `elsewhere`: in the temporary folder of another node
    state: Literal["there", "gone", "elsewhere"]


class FilesSeen(WorkerEvent, frozen=True, kw_only=True):
    """The saved files of earlier attempts, as a rank found them before the job's code began."""

    files: tuple[SeenFile, ...]

    def _text(self) -> str:
        present_count = sum(file.state == "there" for file in self.files)
        return f"{self.worker_label}: {present_count} of {len(self.files)} saved files are there"
