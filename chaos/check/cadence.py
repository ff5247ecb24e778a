"""The steps of several optimizers in one loop, one of which may step after some batches alone.

    batch          1   2   3   4   5   6
    optimizer 0    s   s   s   s   s   s      a step of it is a batch
    optimizer 1            s           s

A restart that loses the count of batches moves the steps of the second: no batch is skipped then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from chaos.check.kinds.epochs import BatchNumbers, CadenceChange
from chaos.resume.steps import Step

NAMED_MAX = 3


def find_cadence_changes(
    run_steps: Sequence[Step],
    baseline_steps: Sequence[Step],
    optimizers: Mapping[str, int],
    earlier_steps: Iterable[Step],
) -> Iterator[CadenceChange]:
    """Yield each optimizer that stepped after other batches than in the baseline.

    `run_steps` are those of an attempt, `baseline_steps` the baseline's from the place of its
    resume on and `earlier_steps` those before it, `optimizers` the baseline's with the number of
    their steps. Nothing is said where the batches themselves are others, or an optimizer is not the
    baseline's: its number may be another in another attempt.
    """
    main_optimizer = _find_main_optimizer(run_steps, optimizers)
    if main_optimizer is None:
        return
    earlier_batches = sum(step.done.optimizer == main_optimizer for step in earlier_steps)
    run_batches, baseline_batches = (
        [s.inputs for s in side if s.done.optimizer == main_optimizer]
        for side in (run_steps, baseline_steps)
    )
    batch_limit = earlier_batches + min(len(run_batches), len(baseline_batches))
    positions = [
        _count_batches(side, main_optimizer, earlier_batches)
        for side in (run_steps, baseline_steps)
    ]
    for name in sorted(positions[0].keys() | positions[1].keys()):
        run_positions, baseline_positions = (
            [position for position in side.get(name, ()) if position < batch_limit]
            for side in positions
        )
        if run_positions == baseline_positions:
            continue
        checked_count = max(
            1,
            min(set(run_positions) ^ set(baseline_positions), default=batch_limit)
            - earlier_batches,
        )
        if (
            None in run_batches[:checked_count]
            or run_batches[:checked_count] != baseline_batches[:checked_count]
        ):
            continue
        yield CadenceChange(
            name or "0", _select_first(run_positions), _select_first(baseline_positions)
        )


def _find_main_optimizer(steps: Sequence[Step], optimizers: Mapping[str, int]) -> str | None:
    """Return the optimizer that makes most steps in the baseline, the first of several."""
    if len(optimizers) < 2 or any(s.done.optimizer not in optimizers for s in steps):  # noqa: PLR2004
        return None
    return min(optimizers, key=lambda name: (-optimizers[name], name))


def _count_batches(
    steps: Sequence[Step], main_optimizer: str, batch_count: int
) -> dict[str, list[int]]:
    """Return for each other optimizer the number of batches made before each of its steps."""
    counts: dict[str, list[int]] = {}
    for step in steps:
        if step.done.optimizer == main_optimizer:
            batch_count += 1
        else:
            counts.setdefault(step.done.optimizer, []).append(batch_count)
    return counts


def _select_first(batches: Sequence[int]) -> BatchNumbers:
    return BatchNumbers(tuple(batches[:NAMED_MAX]), len(batches))
