"""The steps of several optimizers in one loop, one of which may step after some batches alone.

    batch          1   2   3   4   5   6
    optimizer 0    s   s   s   s   s   s      a step of it is a batch
    optimizer 1            s           s

A restart that loses the count of batches moves the steps of the second: no batch is skipped then.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from chaos.check.steps import Step

NAMED_MAX = 3


def describe_other_cadences(
    steps: Sequence[Step],
    expected: Sequence[Step],
    optimizers: Mapping[str, int],
    earlier: Iterable[Step],
) -> Iterator[str]:
    """Yield in words that an optimizer stepped after other batches than in the baseline.

    `steps` are those of an attempt, `expected` the baseline's from the place of its resume on and
    `earlier` those before it, `optimizers` the baseline's with the number of their steps. Nothing
    is said where the batches themselves are others, or an optimizer is not the baseline's: its
    number may be another in another attempt.
    """
    main = _main_optimizer(steps, optimizers)
    if main is None:
        return
    before = sum(step.done.optimizer == main for step in earlier)
    batches, due = ([s.inputs for s in of if s.done.optimizer == main] for of in (steps, expected))
    last = before + min(len(batches), len(due))
    positions = [_batches_by_optimizer(of, main, before) for of in (steps, expected)]
    for name in sorted(positions[0].keys() | positions[1].keys()):
        here, there = ([at for at in of.get(name, ()) if at < last] for of in positions)
        if here == there:
            continue
        first = max(1, min(set(here) ^ set(there), default=last) - before)
        if None in batches[:first] or batches[:first] != due[:first]:
            continue
        yield (
            f"optimizer {name or 0} stepped after {_batch_words(here)}, and in the baseline after "
            f"{_batch_words(there)}"
        )


def _main_optimizer(steps: Sequence[Step], optimizers: Mapping[str, int]) -> str | None:
    """Return the optimizer that makes most steps in the baseline, the first of several."""
    if len(optimizers) < 2 or any(s.done.optimizer not in optimizers for s in steps):  # noqa: PLR2004
        return None
    return min(optimizers, key=lambda name: (-optimizers[name], name))


def _batches_by_optimizer(steps: Sequence[Step], main: str, before: int) -> dict[str, list[int]]:
    """Return for each other optimizer the number of batches made before each of its steps."""
    found: dict[str, list[int]] = {}
    for step in steps:
        if step.done.optimizer == main:
            before += 1
        else:
            found.setdefault(step.done.optimizer, []).append(before)
    return found


def _batch_words(batches: Sequence[int]) -> str:
    if not batches:
        return "no batch"
    named = ", ".join(map(str, batches[:NAMED_MAX]))
    more = " …" * (len(batches) > NAMED_MAX)
    return f"{'batch' if len(batches) == 1 else 'batches'} {named}{more}"
