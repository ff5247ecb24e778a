"""The files that a guarded rank saves and reads, as hooks of torch and safetensors tell them."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from chaos.guard.content import content_of, hashes, is_dense, of_safetensors
from chaos.guard.judge import Load
from chaos.guard.records import Files
from chaos.model.paths import is_below
from chaos.probe.state.files import sharded_part

R = TypeVar("R")
LOADS_KEPT = 64
SLURM_TASKS = "SLURM_STEP_NUM_TASKS"  # of srun's step (22.05); a batch shell has none

# Called with the files of a save, and what is saved: None where that is not known.
Saved = Callable[[list[Path], Any], None]


class GuardedFiles:
    """The listener of `watch_files` and `watch_libraries`. Nothing of a call is changed."""

    def __init__(self, saved: Saved, failed: Callable[[str, Exception], None]) -> None:
        self._saved, self._failed = saved, failed
        self.loads: list[Load] = []
        #: how many files were read so far
        self.count = 0
        #: bytes of saves into buffers since the last step, and files that were opened after them
        self._buffers, self._written = set[int](), dict[str, None]()
        #: folders of saves that go on while training does
        self.handed_over: set[Path] = set()
        #: whether a file that is read may be one that training goes on from
        self.is_looked_for = True
        #: called with each file that is about to be read, until the first step
        self.begins_to_read: Callable[[Path], None] = lambda _: None
        self.without_hooks: Callable[[Callable[[], Any]], Any] = lambda call: call()

    # -- saves -----------------------------------------------------------------------------

    def unhooked(self, call: Callable[[], R]) -> R:
        """Call a function while the model has no hooks of ours: it may be pickled whole."""
        found: R = self.without_hooks(call)
        return found

    def save_begun(self, path: Path) -> None:
        """Do nothing: a save is looked at once it is there."""

    def halfway(self, path: Path) -> None:
        """Return nothing to do in the middle of a save."""

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        yield

    def saved(self, path: Path, value: Any) -> None:  # whatever was saved
        self._tell([path], of_safetensors(path) or value)

    def holds(self, path: Path, value: Any) -> None:
        self._tell([path], value)

    def holds_stream(self, stream: Any, value: Any) -> None:
        """Take what was saved into a stream; a file that has as many bytes then may be its own."""
        if isinstance(stream, io.BytesIO) and not stream.closed:
            self._buffers.add(stream.tell())
        self._tell([], value)

    def opened(self, path: str) -> None:
        """Remember a file that is opened to be written after a save into a buffer."""
        if self._buffers:
            self._written[path] = None

    def renamed(self, was: str, now: str) -> None:
        for path in [*self._written]:
            if is_below(path, was):
                self._written[now + path.removeprefix(was)] = None

    def of_buffers(self) -> Files:
        """Return the files that have the bytes of buffers, and forget them all."""
        # Other threads open files as well: a copy, which none of them changes.
        sizes, paths = self._buffers, [*self._written]
        self._buffers, self._written = set(), {}
        found = {path: facts_of(Path(path)) for path in paths if Path(path).is_file()}
        return {path: facts for path, facts in found.items() if facts[0] in sizes}

    def save_handed_over(self, folder: Path) -> None:
        """Take a sharded save that a thread or a process makes while training goes on."""
        self.handed_over.add(folder)
        self._tell([folder], None)

    def shard_begun(self, folder: Path) -> None:
        self._tell([Path(os.path.abspath(folder))], None)  # noqa: PTH100 - links stay links

    def shard_written(self, folder: Path) -> None:
        """Do nothing: it was taken as it began."""

    # -- loads -----------------------------------------------------------------------------

    def loading(self, path: Path) -> str | None:
        """Return a name for what is read: with none, what follows would not be called."""
        self._begins_to_read(path)
        return str(path)

    def within_load(self, digest: str) -> None:
        """Do nothing."""

    def loaded(
        self, path: Path, digest: str, error: BaseException | None, value: Any = None
    ) -> None:
        """Remember a file that was read, by its tensors."""
        del digest
        if error is not None or not self.is_looked_for:
            return
        self.count += 1
        try:
            tensors = content_of(value).tensors or content_of(of_safetensors(path)).tensors
            found = frozenset(own for _, own in hashes(filter(is_dense, tensors)))
        except Exception as problem:  # noqa: BLE001 - must not fail the user's load
            self._failed("load", problem)
            return
        self.loads = [*self.loads[-LOADS_KEPT + 1 :], Load(str(path), found)]

    def shards_read(self, folder: Path) -> None:
        """Remember the folder of a sharded save: of its tensors a rank reads what it needs."""
        self._begins_to_read(folder)
        if self.is_looked_for:
            self.count += 1
            self.loads = [*self.loads[-LOADS_KEPT + 1 :], Load(str(folder), frozenset())]

    def _begins_to_read(self, path: Path) -> None:
        if not self.is_looked_for:
            return
        try:
            self.begins_to_read(path)
        except Exception as error:  # noqa: BLE001 - must not fail the user's load
            self._failed("load", error)

    def _tell(self, files: list[Path], value: Any) -> None:
        try:
            self._saved(files, value)
        except Exception as error:  # noqa: BLE001 - must not fail the user's save
            self._failed("save", error)


def facts_of(path: Path) -> tuple[int, int]:
    """Return a file's bytes and the time of its content (unix, ns); those of a folder's files.

    Zeros of a folder that has none, or is not made yet: a save that is handed over begins later.
    """
    if path.is_dir():
        below = [p.stat() for p in sorted(path.rglob("*")) if p.is_file()]
        return sum(s.st_size for s in below), max((s.st_mtime_ns for s in below), default=0)
    if not path.exists():
        return 0, 0
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def is_there(path: Path, facts: tuple[int, int], at_s: float) -> bool:
    """Return whether a file is as a save left it, or a sharded save, begun at `at_s`, is whole.

    The index of a sharded save comes last, and names how much of each file it needs. The files of
    one that is made while training goes on may have come after the facts were taken.
    """
    part = None
    if path.is_dir() and any(path.glob("**/*.distcp")):
        # The classes that an index is made of.
        import_module("torch.distributed.checkpoint.metadata")
        part = sharded_part(path, [str(p.relative_to(path)) for p in path.rglob("*")])
    if part is None:
        return facts[0] > 0 and facts_of(path) == facts
    if not part.indexes or any((path / name).stat().st_mtime < at_s for name in part.indexes):
        return False
    if not part.needs:  # too large to be read, or of another version
        return facts_of(path) == facts
    return all(part.sizes.get(name, 0) >= length for name, length in part.needs.items())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that are imported."""
    known = ("torch", "numpy", "ray", "lightning", "transformers", "accelerate", "deepspeed")
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in known}
    return {"python": sys.version.split()[0], **{n: str(v) for n, v in found.items() if v}}


def launcher() -> str:
    """Return what started this rank, as far as the environment shows it."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun"
    if os.environ.get(SLURM_TASKS, "1") != "1":
        return "slurm"
    return "ray" if "ray" in sys.modules and "RAY_JOB_ID" in os.environ else "python"
