"""Batches of Keras, which count as the optimizer steps of a job that trains with `Model.fit`.

Keras 3 and the Keras before it (`tf_keras`, which alone can train with TensorFlow's
MultiWorkerMirroredStrategy) both call a list of callbacks at each batch. So a
batch is counted after its update and before the job's own callbacks, one of
which may report it. With `steps_per_execution` several steps are one batch.
A loop of the job's own, traced once by `tf.function`, makes no call that could be watched.
"""

import functools
from collections.abc import Callable
from typing import Any

from chaos.backends.train.imported import unwatched

LIBRARIES = ("keras", "tf_keras")


def watch_batches(begins: Callable[[Any], None], done: Callable[[], None]) -> None:
    """Call `begins` with the model before each batch from now on, and `done` after it.

    Watches only libraries that the worker has imported. May be called again, for
    those imported since; none is watched twice.
    """
    for told in unwatched(LIBRARIES, "callbacks.CallbackList"):
        _watch(told, begins, done)


def _watch(told: Any, begins: Callable[[Any], None], done: Callable[[], None]) -> None:  # noqa: ANN401 - a class
    on_begin: Callable[..., None] = told.on_train_batch_begin
    on_end: Callable[..., None] = told.on_train_batch_end

    @functools.wraps(on_begin)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        on_begin(self, *args, **kwargs)
        model = getattr(self, "model", None)  # a list that a job makes by hand may have none
        if model is not None:
            begins(model)

    @functools.wraps(on_end)
    def end(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        done()
        on_end(self, *args, **kwargs)

    told.on_train_batch_begin, told.on_train_batch_end = begin, end
