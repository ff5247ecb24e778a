"""The entries of a scenario with every range, chance, return and lifetime drawn from a seed.

Pure: an equal scenario and an equal seed give equal entries. Each entry draws from a generator of
its own, so that a change of one leaves the others as they are.
"""

import math
import random
from collections.abc import Iterator, Sequence

from chaos.model.draws import Every, Lifetimes, UpTo
from chaos.model.fault_entry import OF_ENTRIES, FaultEntry
from chaos.model.scenario import Scenario
from chaos.model.trigger import AtRecovery, AtStep, Trigger


def is_drawn(scenario: Scenario) -> bool:
    """Return whether the seed decides more of a scenario than ranks that are left out."""
    return scenario.lifetimes is not None or any(entry.is_drawn for entry in scenario.faults)


def stated_steps(scenario: Scenario) -> tuple[int, ...]:
    """Return the steps of an epoch that a scenario's distances and lives are counted by."""
    returns = [entry.every for entry in scenario.faults if entry.every is not None]
    stated = {every.steps_per_epoch for every in returns if every.steps_per_epoch is not None}
    if scenario.lifetimes is not None:
        stated.add(scenario.lifetimes.steps_per_epoch)
    return tuple(sorted(stated))


def drawn_entries(scenario: Scenario, *, seed: int) -> tuple[FaultEntry, ...]:
    """Return plain entries: those of `faults` in their order, then the losses of `lifetimes`.

    A recovery names its cause by the number that it has here; one whose cause was not drawn is
    left out. A scenario in which nothing is drawn keeps its entries as they are.
    """
    found: list[FaultEntry] = []
    first: dict[int, int] = {}
    for number, entry in enumerate(scenario.faults):
        for plain in _places(entry, times(number, scenario), _generator(seed, number)):
            at = plain.at
            if isinstance(at, AtRecovery):
                if at.recovering_from not in first:
                    continue
                at = at.model_copy(update={"recovering_from": first[at.recovering_from]})
            first.setdefault(number, len(found))
            found.append(plain.model_copy(update={"at": at}))
    if scenario.lifetimes is not None:
        draws = _generator(seed, len(scenario.faults))
        found += _losses(scenario.lifetimes, scenario, draws)
    return tuple(found)


def _generator(seed: int, number: int) -> random.Random:
    return random.Random(f"entry {number} of seed {seed}")  # noqa: S311 (repeatable)


# -- ranges, chances and returns ------------------------------------------------------------------


def times(number: int, scenario: Scenario) -> int:
    """Return the number of places of an entry; `until: budget` has what the others leave."""
    entry = scenario.faults[number]
    if entry.every is None or entry.every.times is not None:
        return 1 if entry.every is None else entry.every.times or 1
    left = budget(entry, scenario)
    for other, beside in enumerate(scenario.faults):
        takes = beside.fault.is_announced == entry.fault.is_announced and may_charge(beside)
        is_first = beside.every is None or beside.every.until is None or other < number
        if other != number and takes and is_first:
            left -= times(other, scenario)
    return max(0, left)


def budget(entry: FaultEntry, scenario: Scenario) -> int:
    """Return the number of retries that job.failure allows for a fault; below 0 without limit."""
    failure = scenario.job.failure
    if failure is None:
        return -1
    return failure.max_preemption_failures if entry.fault.is_announced else failure.max_failures


def may_charge(entry: FaultEntry) -> bool:
    """Return whether an entry's fault may end an attempt, which is charged to a budget."""
    return entry.fault.ends_attempt != "never" and not entry.fault.ends_driver


def _places(entry: FaultEntry, count: int, draws: random.Random) -> Iterator[FaultEntry]:
    plain = entry.model_copy(update=dict.fromkeys(OF_ENTRIES))
    for number in range(count):
        is_there = draws.random() < (1.0 if entry.chance is None else entry.chance)
        at = entry.at if entry.up_to is None else _between(entry.at, entry.up_to, draws)
        if is_there:
            moved = at if entry.every is None else _moved(at, entry.every, number)
            yield plain.model_copy(update={"at": moved})


def _between(at: Trigger, up_to: UpTo, draws: random.Random) -> Trigger:
    drawn: dict[str, float] = {}
    for key, high in up_to.model_dump(exclude_none=True).items():
        low, share = getattr(at, key), draws.random()
        if isinstance(high, int):
            drawn[key] = low + int(share * (high - low + 1))
        else:
            drawn[key] = min(high, max(low, round(low + share * (high - low), 3)))
    return at.model_copy(update=drawn)


_MOVED = {"epochs": "epoch", "attempts": "starting", "seconds": "seconds"}


def _moved(at: Trigger, every: Every, count: int) -> Trigger:
    """Return the place that lies `count` distances further on."""
    by = count * getattr(every, every.distance)
    if every.distance == "steps":
        assert isinstance(at, AtStep)
        assert every.steps_per_epoch is not None
        return _at_step(at, at.epoch * every.steps_per_epoch + at.step + by, every.steps_per_epoch)
    key = _MOVED[every.distance]
    return at.model_copy(update={key: getattr(at, key) + by})


def _at_step(at: AtStep, made: int, per_epoch: int) -> AtStep:
    """Return the place after `made` steps from the beginning of training, at least one."""
    epoch, before = divmod(made - 1, per_epoch)
    return at.model_copy(update={"epoch": epoch, "step": before + 1})


# -- lifetimes ------------------------------------------------------------------------------------


def _losses(lives: Lifetimes, scenario: Scenario, draws: random.Random) -> Iterator[FaultEntry]:
    """Yield the losses of machines, each of which is replaced at once.

        made   ──────────┬──────┬────────────┬─────▶  steps that were made: lives are counted so
        place  0 ─ ─ ─ ─ 7   6 ─ 8       6 ─ ─ ─ 15   steps of training: back to an epoch's begin

    A place that an earlier attempt has passed is meant for the attempt that comes there anew.
    """
    saves_alone = scenario.job.facts.lacks_part("reports")
    ranks = machines(lives, scenario)
    ends = [_life(lives, draws) for _ in ranks]
    last = lives.epochs * lives.steps_per_epoch
    made, place, furthest = 0, 0, 0
    for attempt in range(most(lives, scenario)):
        dying = min(range(len(ends)), key=ends.__getitem__)
        steps = max(1, round(ends[dying] - made))
        if (place + steps) % lives.steps_per_epoch == 0:
            steps += _off_the_save(ends[dying] - made - steps, saves_alone=saves_alone)
        made, place = made + steps, place + steps
        if place > last:
            return
        again = attempt if place <= furthest else None
        at = _at_step(
            AtStep(epoch=0, step=1, attempt=again, rank=ranks[dying]), place, lives.steps_per_epoch
        )
        yield FaultEntry.model_validate({"at": at, f"kill_{lives.lost}": {}})
        furthest = max(furthest, place)
        place = at.epoch * lives.steps_per_epoch
        ends[dying] = made + _life(lives, draws)


def _off_the_save(late: float, *, saves_alone: bool) -> int:
    """Return the steps by which a loss moves that was rounded to the last step of an epoch.

    Its place lies before the save. A life that ends `late` steps after it ends in the next epoch,
    whose first step is the place; else too much would be lost. Without reports, at which ranks
    meet, one with that step done saves whatever becomes of its peers: the loss comes a step before.
    """
    if late > 0:
        return 1
    return -1 if saves_alone else 0


def machines(lives: Lifetimes, scenario: Scenario) -> Sequence[int]:
    """Return the lowest rank of each machine."""
    workers, nodes = scenario.job.workers, scenario.cluster.nodes or 1
    if lives.lost == "worker":
        return range(workers)
    has_spares = scenario.job.facts.has_spare_nodes
    return range(0, workers, scenario.cluster.cpus_per_node if has_spares else workers // nodes)


def most(lives: Lifetimes, scenario: Scenario) -> int:
    """Return the largest number of losses: the scenario's own, or the job's retries."""
    failure = scenario.job.failure
    retries = -1 if failure is None else failure.max_failures
    return lives.most if retries < 0 else min(lives.most, retries)


def _life(lives: Lifetimes, draws: random.Random) -> float:
    """Return a drawn life in steps, by the inverse of Weibull's distribution."""
    scale = lives.mean / math.gamma(1 + 1 / lives.shape)
    return float(scale * (-math.log(1.0 - draws.random())) ** (1 / lives.shape))
