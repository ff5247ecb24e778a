"""Verdicts on broken promises, and what a scenario accepts of them."""

from typing import Any

from chaos.model import event as ev
from chaos.model.history import History
from tests.check.tamper import changed
from tests.check.test_blame import moved, wrong
from tests.check.watching import digest

RNG: dict[str, Any] = {"accept": ("rng",)}


def lost_rng() -> History:
    return moved(wrong("rng.torch"), 1)


def augmented(history: History, *, ranks: tuple[int, ...] = (0, 1)) -> History:
    """Return that what was given after the resume was never seen by the baseline."""

    def drawn(done: ev.StepDone) -> ev.Inputs:
        samples = digest("augmented", done.epoch, done.step, done.rank)
        return ev.Inputs(count=2, digest=samples, samples=samples)

    def hit(done: ev.StepDone) -> bool:
        return done.attempt == 1 and done.rank in ranks

    return changed(history, ev.StepDone, hit, inputs=drawn)


def counted(history: History, *, reset: bool = False) -> History:
    """Tell of a counter in the reports; `reset`: it begins anew after the resume."""

    def metrics(done: ev.Committed) -> tuple[dict[str, object], ...]:
        since = 2 if reset and done.attempt else 0
        return tuple({**record, "logged": 1 + done.epoch - since} for record in done.metrics)

    return changed(history, ev.Committed, metrics=metrics)
