"""Boosting rounds, which count as the optimizer steps of a job of XGBoost or LightGBM.

Both libraries make one round per call of `Booster.update`, on every rank, and
call their callbacks afterwards. So a round is counted when its trees are there
and before `RayTrainReportCallback` reports it.
"""

import functools
from collections.abc import Callable
from typing import Any

from chaos.backends.train.imported import unwatched

LIBRARIES = ("xgboost", "lightgbm")


def watch_rounds(begins: Callable[[Any], None], done: Callable[[], None]) -> None:
    """Call `begins` with the booster before each round from now on, and `done` after it.

    Watches only libraries that the worker has imported. May be called again, for
    those imported since; none is watched twice.
    """
    for booster in unwatched(LIBRARIES, "Booster"):
        _watch(booster, begins, done)


def _watch(booster: Any, begins: Callable[[Any], None], done: Callable[[], None]) -> None:  # noqa: ANN401 - a class
    original: Callable[..., Any] = booster.update

    @functools.wraps(original)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begins(self)
        result = original(self, *args, **kwargs)
        done()
        return result

    booster.update = update
