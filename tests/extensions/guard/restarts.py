"""Restarts of a guarded training, as its folder holds them."""

import msgspec

from chaos.extensions.guard.records import GuardFinding, RestartAnswer

OTHER = GuardFinding("notice", "state", "optimizer settings (optimizer.lr): other than at the save")

ACCEPTED = GuardFinding("accepted", "state", "schedule: reset", "schedule")

WRONG = GuardFinding("mismatch", "state", "model: reset, as at the first step of the training")


def restart(number: int, *findings: GuardFinding, **changed: object) -> RestartAnswer:
    made = RestartAnswer(
        start=number,
        rank=0,
        ranks=1,
        at_s=1.0,
        step=8,
        is_by_state=True,
        lost=3,
        first_step_s=2.5,
        compared=("model",),
        continues=True,
        findings=findings,
    )
    return msgspec.structs.replace(made, **changed)
