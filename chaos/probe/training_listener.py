"""Events of one rank's training, from the hooks in torch, and the questions of these hooks.

In their order, `?` where not each has it:

    attempt  load_begins load_ended state_loaded?
    step     model_called loader_started? gradients_ready? window_dropped? step_begins step_done
             losses_resolved, at the latest at the report after
    save     save_begins save_reached? file_saved first_save_done? save_ends
             shards_begin shards_written, of a sharded one; shards_loaded
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chaos.model.event import Inputs
from chaos.model.places import START, TrainingPlace
from chaos.probe.state.inputs import ModuleCall, Owner, StepInputs

if TYPE_CHECKING:  # a guarded start waits for no models of scenarios
    from chaos.model.trigger import Moment

Losses: TypeAlias = tuple[float | str, ...]
Operated: TypeAlias = Literal[
    "making", "opening", "renaming", "linking", "removing", "putting", "completing"
]
#: stops a rank at an op
Stop: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class FileOperation:
    """A renaming, a link, a removal, a new folder, a file written anew, or an object put."""

    moment: Operated
    path: str
    place: TrainingPlace
    #: the new name, or what a link leads to, or an object is copied from
    other_path: str = ""


class TrainingQuestions:
    """The questions of hooks, answered as of a rank of which nothing is known."""

    def list_optimizers(self) -> list[Any] | None:
        """Return the optimizers that train; None: they are not watched."""
        return None

    def close_inputs(self) -> StepInputs | None:
        """Return the inputs of the step that ends, and begin anew; None: they are not watched."""
        return None

    def is_hidden(self, path: str) -> bool:  # noqa: ARG002
        """Return whether a fault hides an object from all that list the store."""
        return False

    def call_unhooked(self, call: Callable[[], Any]) -> Any:
        """Return what a function returns that is called while no module has a hook of chaos."""
        return call()

    def pause_watch(self) -> AbstractContextManager[object]:
        """Return a context within which files that are opened are not the job's."""
        return nullcontext()


class TrainingListener(TrainingQuestions):
    """A listener of hooks, to which no event means anything."""

    # -- steps ---------------------------------------------------------------------------------

    def model_called(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner
    ) -> ModuleCall | None:
        """Take a call of a root module in training; return what takes its outputs."""

    def root_found(self) -> None:
        """Take that the first root module is called for the first time."""

    def validation_begins(self) -> None:
        """Take that a root module is called in evaluation, without gradients."""

    def loader_started(self, iterator: Any) -> None:
        """Take the iterator of a loader whose processes live as long as it does."""

    def loaders_counted(self, count: int) -> None:
        """Take the number of all loaders' processes, whenever it changes."""

    def gradients_ready(self, *, is_second: bool) -> None:
        """Take that `backward()` begins: the first of an attempt, or after a report or a save.

        An attempt may resume with what is accumulated by then; `is_second` in the same step.
        """

    def window_dropped(self) -> None:
        """Take that what was backpropagated since the last step is part of no step."""

    def state_loaded(self) -> None:
        """Take that a module has got another state."""

    def step_begins(self, optimizer: Any) -> None:  # see `find_kind`
        """Take what is about to make a step."""

    def step_done(self, losses: Losses | None, inputs: Inputs | None) -> TrainingPlace:  # noqa: ARG002
        """Take a step that was made; return its place. None: it is read later."""
        return START

    def losses_resolved(self, epoch: int, step: int, losses: Losses, inputs: Inputs | None) -> None:
        """Take losses and inputs of an earlier step, read from the accelerator by now."""

    # -- files ---------------------------------------------------------------------------------

    def save_begins(self, path: Path) -> None:
        """Take the path of a save, before its first byte."""

    def save_reached(self, moment: "Moment", epoch: int, path: str) -> Stop | None:
        """Take a moment that a save has come to; return what stops the rank there."""

    def find_midpoint_stop(self, path: Path) -> Stop | None:
        """Return what to call between the halves of a file; None to write it at once."""

    def file_saved(self, path: Path, value: Any) -> None:
        """Take a file that was saved, and what was."""

    def content_pickled(self, path: Path, value: Any) -> None:
        """Take what was pickled into a file that is not closed yet."""

    def stream_saved(self, stream: Any, value: Any) -> None:
        """Take what was saved into a buffer, or another stream that is no file."""

    def background_save_begins(self, folder: Path) -> None:
        """Take the folder of a sharded save that goes on while training does."""

    def shards_begin(self, folder: Path) -> None:
        """Take the folder into which this rank begins to write its shards."""

    def shards_written(self, folder: Path) -> None:
        """Take that they are written."""

    def shards_loaded(self, folder: Path) -> None:
        """Take the folder of which this rank has read its shards."""

    def reading_begins(self, path: Path) -> None:
        """Take a file that is about to be read, by whatever library."""

    def files_closed(self) -> None:
        """Take that files which were written may be closed by now."""

    def operation_begins(self, operation: FileOperation) -> None:
        """Take an operation that is about to be done; it may be held up here."""

    def file_moved(self, path: str, new_path: str | None) -> None:
        """Take a file or folder that is about to be renamed; None: that is to be removed."""

    def first_save_done(self) -> None:
        """Take that the first save of an attempt is recorded."""

    def save_ends(self, files: Sequence[Path], value: Any) -> None:
        """Take the files of a save that is over, none of a buffer, and what was saved if known."""

    def load_begins(self, path: Path) -> str | None:
        """Take a file that is about to be loaded; return its digest, None to hear no more of it."""

    def earlier_save_entered(self) -> None:
        """Take that the first load of a file that an earlier attempt saved begins."""

    def load_ended(
        self, path: Path, digest: str, error: BaseException | None, value: Any = None
    ) -> None:
        """Take how a load ended, and what it returned."""
