"""Steps of libraries that a worker has imported: boosting rounds, and batches of Keras.

They count as the optimizer steps of a job that trains by them. XGBoost and LightGBM make one
round per call of `Booster.update`, on every rank, and call their callbacks afterwards. So a
round is counted when its trees are there and before `RayTrainReportCallback` reports it.

Keras 3 and the Keras before it (`tf_keras`, which alone can train with TensorFlow's
MultiWorkerMirroredStrategy) both call a list of callbacks at each batch. So a
batch is counted after its update and before the job's own callbacks, one of
which may report it. With `steps_per_execution` several steps are one batch.
A loop of the job's own, traced once by `tf.function`, makes no call that could be watched.

chaos imports none of them. Each function here may be called again, for libraries imported
since: no class is watched twice.
"""

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

BOOSTING, KERAS = ("xgboost", "lightgbm"), ("keras", "tf_keras")
# Modules that `install_libraries` looks for, in part once they were imported.
MODULES = frozenset(
    (
        *BOOSTING,
        *KERAS,
        "safetensors.numpy",
        "safetensors.torch",
        "torch.distributed.checkpoint._async_process_executor",
        "torch.distributed.checkpoint._async_thread_executor",
        "torch.distributed.checkpoint.filesystem",
        "torch.distributed.checkpoint.hf_storage",
    )
)
_WATCHED = "_chaos_watches"


def take_unwatched_classes(libraries: Sequence[str], name: str = "") -> Iterator[Any]:
    """Yield each library's class of this name (dotted, below the library), and mark it.

    Without a name it is the library itself: a module is an attribute of its package only after
    it was imported, and those that follow the import are called before.
    """
    for library in libraries:
        try:
            module = sys.modules.get(library)
            cls = operator.attrgetter(name)(module) if name else module
        except AttributeError:  # not imported, or not yet as a whole
            continue
        if cls is not None and _WATCHED not in vars(cls):
            setattr(cls, _WATCHED, True)
            yield cls


def watch_rounds(on_begin: Callable[[Any], None], on_end: Callable[[], None]) -> None:
    """Call `on_begin` with the booster before each round from now on, and `on_end` after it."""
    for booster in take_unwatched_classes(BOOSTING, "Booster"):
        _watch_booster(booster, on_begin, on_end)


def _watch_booster(
    booster: Any, on_begin: Callable[[Any], None], on_end: Callable[[], None]
) -> None:  # a class
    original: Callable[..., Any] = booster.update

    @functools.wraps(original)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        on_begin(self)
        result = original(self, *args, **kwargs)
        on_end()
        return result

    booster.update = update


def watch_batches(on_begin: Callable[[Any], None], on_end: Callable[[], None]) -> None:
    """Call `on_begin` with the model before each batch from now on, and `on_end` after it."""
    for callback_list in take_unwatched_classes(KERAS, "callbacks.CallbackList"):
        _watch_callbacks(callback_list, on_begin, on_end)


def _watch_callbacks(
    callback_list: Any, on_batch_begin: Callable[[Any], None], on_batch_end: Callable[[], None]
) -> None:  # a class
    original_begin: Callable[..., None] = callback_list.on_train_batch_begin
    original_end: Callable[..., None] = callback_list.on_train_batch_end

    @functools.wraps(original_begin)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original_begin(self, *args, **kwargs)
        model = getattr(self, "model", None)  # a list that a job makes by hand may have none
        if model is not None:
            on_batch_begin(model)

    @functools.wraps(original_end)
    def end(self: Any, *args: Any, **kwargs: Any) -> None:
        on_batch_end()
        original_end(self, *args, **kwargs)

    callback_list.on_train_batch_begin, callback_list.on_train_batch_end = begin, end
