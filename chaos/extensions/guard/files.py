"""The files that a guarded rank saves and reads, as hooks of torch and safetensors tell them."""

import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from chaos.extensions.guard.content import collect_tensors, hash_tensors, is_dense, load_safetensors
from chaos.extensions.guard.judge import FileLoad
from chaos.extensions.guard.records import Files
from chaos.model.paths import is_in_folder
from chaos.probe.state.files import build_sharded_part
from chaos.probe.training_listener import TrainingListener

LOADS_KEPT = 64
SLURM_TASKS = "SLURM_STEP_NUM_TASKS"  # of srun's step (22.05); a batch shell has none


class GuardedFiles(TrainingListener):
    """The listener of `watch_files` and `watch_libraries`. Nothing of a call is changed.

    A `rank` listens to saves, and to what is about to be read until its first step.
    """

    def __init__(
        self, rank: TrainingListener, report_failure: Callable[[str, Exception], None]
    ) -> None:
        self._rank, self._report_failure = rank, report_failure
        self.loads: list[FileLoad] = []
        #: how many files were read so far
        self.load_count = 0
        #: bytes of saves into buffers since the last step, and files that were opened after them
        self._buffer_sizes, self._opened_paths = set[int](), dict[str, None]()
        #: folders of saves that go on while training does
        self.background_folders: set[Path] = set()
        #: whether a file that is read may be one that training goes on from
        self.is_before_training = True

    # -- saves -----------------------------------------------------------------------------

    def call_unhooked(self, call: Callable[[], Any]) -> Any:
        return self._rank.call_unhooked(call)

    def file_saved(self, path: Path, value: Any) -> None:  # whatever was saved
        self._report_save([path], load_safetensors(path) or value)

    def content_pickled(self, path: Path, value: Any) -> None:
        self._report_save([path], value)

    def stream_saved(self, stream: Any, value: Any) -> None:
        """Take what was saved into a stream; a file that has as many bytes then may be its own."""
        if isinstance(stream, io.BytesIO) and not stream.closed:
            self._buffer_sizes.add(stream.tell())
        self._report_save([], value)

    def record_opening(self, path: str) -> None:
        """Remember a file that is opened to be written after a save into a buffer."""
        if self._buffer_sizes:
            self._opened_paths[path] = None

    def record_renaming(self, old_path: str, new_path: str) -> None:
        for path in [*self._opened_paths]:
            if is_in_folder(path, old_path):
                self._opened_paths[new_path + path.removeprefix(old_path)] = None

    def take_buffer_files(self) -> Files:
        """Return the files that have the bytes of buffers, and forget them all."""
        # Other threads open files as well: a copy, which none of them changes.
        sizes, paths = self._buffer_sizes, [*self._opened_paths]
        self._buffer_sizes, self._opened_paths = set(), {}
        facts_by_path = {path: measure_file(Path(path)) for path in paths if Path(path).is_file()}
        return {path: facts for path, facts in facts_by_path.items() if facts[0] in sizes}

    def background_save_begins(self, folder: Path) -> None:
        """Take a sharded save that a thread or a process makes while training goes on."""
        self.background_folders.add(folder)
        self._report_save([folder], None)

    def shards_begin(self, folder: Path) -> None:
        self._report_save([Path(os.path.abspath(folder))], None)  # noqa: PTH100 - links stay links

    # -- loads -----------------------------------------------------------------------------

    def load_begins(self, path: Path) -> str | None:
        """Return a name for what is read: with none, what follows would not be called."""
        self._report_reading(path)
        return str(path)

    def load_ended(
        self, path: Path, digest: str, error: BaseException | None, value: Any = None
    ) -> None:
        """Remember a file that was read, by its tensors."""
        del digest
        if error is not None or not self.is_before_training:
            return
        self.load_count += 1
        try:
            tensors = (
                collect_tensors(value).tensors or collect_tensors(load_safetensors(path)).tensors
            )
            tensor_hashes = frozenset(
                digest_text for _, digest_text in hash_tensors(filter(is_dense, tensors))
            )
        except Exception as problem:  # noqa: BLE001 - must not fail the user's load
            self._report_failure("load", problem)
            return
        self.loads = [*self.loads[-LOADS_KEPT + 1 :], FileLoad(str(path), tensor_hashes)]

    def shards_loaded(self, folder: Path) -> None:
        """Remember the folder of a sharded save: of its tensors a rank reads what it needs."""
        self._report_reading(folder)
        if self.is_before_training:
            self.load_count += 1
            self.loads = [*self.loads[-LOADS_KEPT + 1 :], FileLoad(str(folder), frozenset())]

    def _report_reading(self, path: Path) -> None:
        if not self.is_before_training:
            return
        try:
            self._rank.load_begins(path)
        except Exception as error:  # noqa: BLE001 - must not fail the user's load
            self._report_failure("load", error)

    def _report_save(self, files: list[Path], value: Any) -> None:
        try:
            self._rank.save_ends(files, value)
        except Exception as error:  # noqa: BLE001 - must not fail the user's save
            self._report_failure("save", error)


def measure_file(path: Path) -> tuple[int, int]:
    """Return a file's bytes and the time of its content (unix, ns); those of a folder's files.

    Zeros of a folder that has none, or is not made yet: a save that is handed over begins later.
    """
    if path.is_dir():
        entries = [p.stat() for p in sorted(path.rglob("*")) if p.is_file()]
        return sum(s.st_size for s in entries), max((s.st_mtime_ns for s in entries), default=0)
    if not path.exists():
        return 0, 0
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def is_unchanged(path: Path, facts: tuple[int, int], begin_s: float) -> bool:
    """Return whether a file is as a save left it, or a sharded save, begun at `begin_s`, is whole.

    The index of a sharded save comes last, and names how much of each file it needs. The files of
    one that is made while training goes on may have come after the facts were taken.
    """
    part = None
    if path.is_dir() and any(path.glob("**/*.distcp")):
        # The classes that an index is made of.
        import_module("torch.distributed.checkpoint.metadata")
        part = build_sharded_part(path, [str(p.relative_to(path)) for p in path.rglob("*")])
    if part is None:
        return facts[0] > 0 and measure_file(path) == facts
    if not part.indexes or any((path / name).stat().st_mtime < begin_s for name in part.indexes):
        return False
    if not part.needs:  # too large to be read, or of another version
        return measure_file(path) == facts
    return all(part.sizes.get(name, 0) >= length for name, length in part.needs.items())


def find_library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that are imported."""
    libraries = ("torch", "numpy", "ray", "lightning", "transformers", "accelerate", "deepspeed")
    version_by_library = {
        name: getattr(sys.modules.get(name), "__version__", None) for name in libraries
    }
    return {
        "python": sys.version.split()[0],
        **{n: str(v) for n, v in version_by_library.items() if v},
    }


def find_launcher() -> str:
    """Return what started this rank, as far as the environment shows it."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun"
    if os.environ.get(SLURM_TASKS, "1") != "1":
        return "slurm"
    return "ray" if "ray" in sys.modules and "RAY_JOB_ID" in os.environ else "python"
