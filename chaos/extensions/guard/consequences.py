"""Findings of a state that equal losses of the steps made again outvote.

What is wrong is a result: a part that is other than at the save, and moves no loss, is a notice and
no mismatch. Momentum that was lost shows in no loss before its optimizer has made a step, a rate
one step later. So losses count only from the step at which the part must have shown.
"""

from collections.abc import Iterable, Mapping

import msgspec

from chaos.extensions.guard.judge import SHOWN_AFTER
from chaos.extensions.guard.records import GuardFinding
from chaos.extensions.guard.steps import RepeatedTrainingSteps

#: optimizers whose parts a finding is of; without any it is of all of them
Provable = Mapping[GuardFinding, tuple[str, ...]]


class Consequences:
    """The findings of one restart that its next steps decide on."""

    def __init__(self, provable: Provable) -> None:
        #: findings that the next steps may outvote, or show to stand
        self.undecided_findings: dict[GuardFinding, tuple[str, ...]] = dict(provable)
        #: findings that they have outvoted, so far
        self.harmless_findings: dict[GuardFinding, tuple[str, ...]] = {}
        self._moves: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        """Return whether the next step may change what a finding comes to."""
        return bool(self.undecided_findings or self.harmless_findings)

    def add_move(self, step: int, optimizer: str) -> None:
        """Take a step of an optimizer, by its name in the state."""
        self._moves.append((step, optimizer))

    def decide(self, replay: RepeatedTrainingSteps, *, is_done: bool = False) -> list[GuardFinding]:
        """Return the findings that the steps made again have shown to stand since the last call.

        `is_done`: no more steps will be looked at.
        """
        if (
            replay.first_difference is not None
        ):  # it may show later, as in weights that are seldom used
            confirmed_findings = [*self.undecided_findings, *self.harmless_findings]
            self.undecided_findings, self.harmless_findings = {}, {}
            return confirmed_findings
        for finding, optimizers in [*self.undecided_findings.items()]:
            if self._must_show(finding, optimizers, replay.last_equal_step):
                self.harmless_findings[finding] = self.undecided_findings.pop(finding)
        if replay.is_unfinished and not is_done:
            return []
        confirmed_findings, self.undecided_findings = [*self.undecided_findings], {}
        return confirmed_findings

    def describe(self, findings: Iterable[GuardFinding]) -> list[GuardFinding]:
        """Return findings with those that were outvoted as notices."""
        return [
            _mark_harmless(finding) if finding in self.harmless_findings else finding
            for finding in findings
        ]

    def _must_show(
        self, finding: GuardFinding, optimizers: tuple[str, ...], step_limit: int
    ) -> bool:
        """Return whether a loss up to a step must be another one if the part matters."""
        stepped_optimizers = [optimizer for step, optimizer in self._moves if step < step_limit]
        needed_steps = SHOWN_AFTER.get(finding.group or "", max(SHOWN_AFTER.values()))
        involved_optimizers = optimizers or tuple({optimizer for _, optimizer in self._moves})
        return bool(involved_optimizers) and all(
            stepped_optimizers.count(optimizer) >= needed_steps for optimizer in involved_optimizers
        )


def _mark_harmless(finding: GuardFinding) -> GuardFinding:
    text = f"{finding.text}; the steps made again have the same losses: no consequence was seen"
    return msgspec.structs.replace(finding, level="notice", kind="latent", text=text)
