"""Findings of a state that equal losses of the steps made again outvote.

What is wrong is a result: a part that is other than at the save, and moves no loss, is a notice and
no mismatch. Momentum that was lost shows in no loss before its optimizer has made a step, a rate
one step later. So losses count only from the step at which the part must have shown.
"""

from collections.abc import Iterable, Mapping

import msgspec

from chaos.guard.judge import SHOWN_AFTER
from chaos.guard.records import Finding
from chaos.guard.steps import Replay

#: optimizers whose parts a finding is of; without any it is of all of them
Provable = Mapping[Finding, tuple[str, ...]]


class Consequences:
    """The findings of one restart that its next steps decide on."""

    def __init__(self, provable: Provable) -> None:
        #: findings that the next steps may outvote, or show to stand
        self.open: dict[Finding, tuple[str, ...]] = dict(provable)
        #: findings that they have outvoted, so far
        self.outvoted: dict[Finding, tuple[str, ...]] = {}
        self._moves: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        """Return whether the next step may change what a finding comes to."""
        return bool(self.open or self.outvoted)

    def add_move(self, step: int, optimizer: str) -> None:
        """Take a step of an optimizer, by its name in the state."""
        self._moves.append((step, optimizer))

    def decide(self, replay: Replay, *, is_done: bool = False) -> list[Finding]:
        """Return the findings that the steps made again have shown to stand since the last call.

        `is_done`: no more steps will be looked at.
        """
        if replay.differs is not None:  # it may show later, as in weights that are seldom used
            standing = [*self.open, *self.outvoted]
            self.open, self.outvoted = {}, {}
            return standing
        for finding, optimizers in [*self.open.items()]:
            if self._has_shown(finding, optimizers, replay.equal_until):
                self.outvoted[finding] = self.open.pop(finding)
        if replay.is_unfinished and not is_done:
            return []
        standing, self.open = [*self.open], {}
        return standing

    def describe(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings with those that were outvoted as notices."""
        return [
            _without_consequence(finding) if finding in self.outvoted else finding
            for finding in findings
        ]

    def _has_shown(self, finding: Finding, optimizers: tuple[str, ...], until: int) -> bool:
        """Return whether a loss up to a step must be another one if the part matters."""
        moves = [optimizer for step, optimizer in self._moves if step < until]
        needed = SHOWN_AFTER.get(finding.group or "", max(SHOWN_AFTER.values()))
        every = optimizers or tuple({optimizer for _, optimizer in self._moves})
        return bool(every) and all(moves.count(optimizer) >= needed for optimizer in every)


def _without_consequence(finding: Finding) -> Finding:
    text = f"{finding.text}; the steps made again have the same losses: no consequence was seen"
    return msgspec.structs.replace(finding, level="notice", kind="latent", text=text)
