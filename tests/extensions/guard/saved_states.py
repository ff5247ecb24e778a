"""Saves and starts of a guarded training, as its ranks keep them."""

from collections.abc import Sequence

import msgspec

from chaos.extensions.guard.judge import (
    RankEntry,
    compare_state,
)
from chaos.extensions.guard.records import GuardedStart, RankSave
from chaos.model.event import Component

FRESH = (
    Component(name="model", digest="m0", count=4, structure="net"),
    Component(name="optimizer.momentum_buffer", digest="", count=0, structure="sgd"),
    Component(name="optimizer.lr", digest="r0", structure="sgd"),
    Component(name="schedule", digest="s0", structure="step"),
    Component(name="rng.torch", digest="g0"),
)


def state(number: int, **other: str) -> tuple[Component, ...]:
    """Return the state of a step; a part's name with underscores, and its digest."""
    digests = {part.name: f"{part.name[0]}{number}" for part in FRESH} | {
        name.replace("__", "."): digest for name, digest in other.items()
    }
    return tuple(
        msgspec.structs.replace(
            part, digest=digests[part.name], count=4 if digests[part.name] else 0
        )
        for part in FRESH
    )


def save(step: int, **changed: object) -> RankSave:
    made = RankSave(
        start=0,
        rank=0,
        ranks=1,
        step=step,
        at_s=float(step),
        files={f"/saves/step_{step}.pt": (10, 20)},
        has_optimizer=True,
        is_live=True,
        tensors=(f"t{step}",),
        made=state(step),
        entered=state(step),
        is_past=True,
    )
    return msgspec.structs.replace(made, **changed)


def start(number: int, **changed: object) -> GuardedStart:
    made = GuardedStart(
        start=number,
        rank=0,
        ranks=1,
        began_s=0.0,
        host="one",
        pid=1,
        command=("python", "-u", "train.py", "--epochs", "9"),
        cwd="/job",
        launcher="torchrun",
        versions={},
        step=0,
        entered=FRESH,
    )
    return msgspec.structs.replace(made, **changed)


def wrong(seen: RankEntry, known: RankSave, others: Sequence[RankSave] = ()) -> list[str]:
    answer = compare_state(seen, known, initial_parts=FRESH, all_saves=[known, *others])
    return [finding.text for finding in answer.findings]
