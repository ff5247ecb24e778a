"""A listener of hooks that answers as a test says."""

from collections.abc import Callable
from typing import Any

from chaos.probe.training_listener import TrainingListener


class Scripted(TrainingListener):
    """A listener; events and questions by name, and what to call for each."""

    def __init__(self, **answers: Callable[..., Any]) -> None:
        self.answer(**answers)

    def answer(self, **answers: Callable[..., Any]) -> None:
        """Call these from now on."""
        for name, call in answers.items():
            assert hasattr(TrainingListener, name), name
            setattr(self, name, call)
