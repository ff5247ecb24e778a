"""The entries of a scenario with every range, chance, return and lifetime drawn from a seed.

Pure: an equal scenario and an equal seed give equal entries. Each entry draws from a generator of
its own, so that a change of one leaves the others as they are.
"""

import math
import random
from collections.abc import Iterator, Sequence

from chaos.model.draws import Every, Lifetimes, UpTo
from chaos.model.fault_entry import OF_ENTRIES, FaultEntry
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import AtRecovery, AtStep, Trigger


def is_drawn(scenario: Scenario) -> bool:
    """Return whether the seed decides more of a scenario than ranks that are left out."""
    return scenario.lifetimes is not None or any(entry.is_drawn for entry in scenario.faults)


def find_stated_epoch_steps(scenario: Scenario) -> tuple[int, ...]:
    """Return the steps of an epoch that a scenario's distances and lives are counted by."""
    repeats = [entry.every for entry in scenario.faults if entry.every is not None]
    step_counts = {
        repeat.steps_per_epoch for repeat in repeats if repeat.steps_per_epoch is not None
    }
    if scenario.lifetimes is not None:
        step_counts.add(scenario.lifetimes.steps_per_epoch)
    return tuple(sorted(step_counts))


def draw_entries(scenario: Scenario, *, seed: int) -> tuple[FaultEntry, ...]:
    """Return plain entries: those of `faults` in their order, then the losses of `lifetimes`.

    A recovery names its cause by the number that it has here; one whose cause was not drawn is
    left out. A scenario in which nothing is drawn keeps its entries as they are.
    """
    entries: list[FaultEntry] = []
    first_indexes: dict[int, int] = {}
    for number, entry in enumerate(scenario.faults):
        for drawn_entry in _draw_sites(
            entry, count_sites(number, scenario), _generator(seed, number)
        ):
            trigger = drawn_entry.at
            if isinstance(trigger, AtRecovery):
                if trigger.recovering_from not in first_indexes:
                    continue
                trigger = trigger.replace(recovering_from=first_indexes[trigger.recovering_from])
            first_indexes.setdefault(number, len(entries))
            entries.append(drawn_entry.replace(at=trigger))
    if scenario.lifetimes is not None:
        draws = _generator(seed, len(scenario.faults))
        entries += _draw_losses(scenario.lifetimes, scenario, draws)
    return tuple(entries)


def _generator(seed: int, number: int) -> random.Random:
    return random.Random(f"entry {number} of seed {seed}")  # noqa: S311 (repeatable)


# -- ranges, chances and returns ------------------------------------------------------------------


def count_sites(number: int, scenario: Scenario) -> int:
    """Return the number of places of an entry; `until: budget` has what the others leave."""
    entry = scenario.faults[number]
    if entry.every is None or entry.every.times is not None:
        return 1 if entry.every is None else entry.every.times or 1
    remaining_count = find_retry_budget(entry, scenario)
    for index, other_entry in enumerate(scenario.faults):
        shares_budget = (
            other_entry.fault.is_announced == entry.fault.is_announced
            and may_use_retry(other_entry)
        )
        comes_first = other_entry.every is None or other_entry.every.until is None or index < number
        if index != number and shares_budget and comes_first:
            remaining_count -= count_sites(index, scenario)
    return max(0, remaining_count)


def find_retry_budget(entry: FaultEntry, scenario: Scenario) -> int:
    """Return the number of retries that job.failure allows for a fault; below 0 without limit."""
    failure = scenario.job.failure
    if failure is None:
        return -1
    return failure.max_preemption_failures if entry.fault.is_announced else failure.max_failures


def may_use_retry(entry: FaultEntry) -> bool:
    """Return whether an entry's fault may end an attempt, which is charged to a budget."""
    return entry.fault.ends_attempt != "never" and not entry.fault.ends_driver


def _draw_sites(entry: FaultEntry, count: int, draws: random.Random) -> Iterator[FaultEntry]:
    plain_entry = entry.model_copy(update=dict.fromkeys(OF_ENTRIES))
    for number in range(count):
        is_drawn_now = draws.random() < (1.0 if entry.chance is None else entry.chance)
        base_trigger = (
            entry.at if entry.up_to is None else _draw_trigger(entry.at, entry.up_to, draws)
        )
        if is_drawn_now:
            trigger = (
                base_trigger
                if entry.every is None
                else _move_trigger(base_trigger, entry.every, number)
            )
            yield plain_entry.replace(at=trigger)


def _draw_trigger(trigger: Trigger, up_to: UpTo, draws: random.Random) -> Trigger:
    drawn_values: dict[str, float] = {}
    for key, high in up_to.model_dump(exclude_none=True).items():
        low, share = getattr(trigger, key), draws.random()
        if isinstance(high, int):
            drawn_values[key] = low + int(share * (high - low + 1))
        else:
            drawn_values[key] = min(high, max(low, round(low + share * (high - low), 3)))
    return trigger.model_copy(update=drawn_values)


_MOVED = {"epochs": "epoch", "attempts": "starting", "seconds": "seconds"}


def _move_trigger(trigger: Trigger, repeat: Every, count: int) -> Trigger:
    """Return the place that lies `count` distances further on."""
    distance = count * getattr(repeat, repeat.distance)
    if repeat.distance == "steps":
        assert isinstance(trigger, AtStep)
        assert repeat.steps_per_epoch is not None
        return _make_step_trigger(
            trigger,
            trigger.epoch * repeat.steps_per_epoch + trigger.step + distance,
            repeat.steps_per_epoch,
        )
    key = _MOVED[repeat.distance]
    return trigger.model_copy(update={key: getattr(trigger, key) + distance})


def _make_step_trigger(trigger: AtStep, step_count: int, per_epoch: int) -> AtStep:
    """Return the place after `step_count` steps from the beginning of training, at least one."""
    epoch, epoch_steps = divmod(step_count - 1, per_epoch)
    return trigger.replace(epoch=epoch, step=epoch_steps + 1)


# -- lifetimes ------------------------------------------------------------------------------------


def _draw_losses(
    lives: Lifetimes, scenario: Scenario, draws: random.Random
) -> Iterator[FaultEntry]:
    """Yield the losses of machines, each of which is replaced at once.

        made   ──────────┬──────┬────────────┬─────▶  steps that were made: lives are counted so
        place  0 ─ ─ ─ ─ 7   6 ─ 8       6 ─ ─ ─ 15   steps of training: back to an epoch's begin

    A place that an earlier attempt has passed is meant for the attempt that comes there anew.
    """
    saves_alone = has_own_saves(scenario.job)
    ranks = list_machines(lives, scenario)
    life_ends = [_draw_life(lives, draws) for _ in ranks]
    final_position = lives.epochs * lives.steps_per_epoch
    made_steps, position, furthest_position = 0, 0, 0
    for attempt in range(count_max_losses(lives, scenario)):
        failing_machine = min(range(len(life_ends)), key=life_ends.__getitem__)
        steps = max(1, round(life_ends[failing_machine] - made_steps))
        if (position + steps) % lives.steps_per_epoch == 0:
            steps += _shift_past_save(
                life_ends[failing_machine] - made_steps - steps, saves_alone=saves_alone
            )
        made_steps, position = made_steps + steps, position + steps
        if position > final_position:
            return
        repeat_attempt = attempt if position <= furthest_position else None
        trigger = _make_step_trigger(
            AtStep(epoch=0, step=1, attempt=repeat_attempt, rank=ranks[failing_machine]),
            position,
            lives.steps_per_epoch,
        )
        yield FaultEntry.model_validate({"at": trigger, f"kill_{lives.lost}": {}})
        furthest_position = max(furthest_position, position)
        position = trigger.epoch * lives.steps_per_epoch
        life_ends[failing_machine] = made_steps + _draw_life(lives, draws)


def _shift_past_save(late_steps: float, *, saves_alone: bool) -> int:
    """Return the steps by which a loss moves that was rounded to the last step of an epoch.

    Its place lies before the save. A life that ends `late_steps` steps after it ends in the next
    epoch, whose first step is the place; else too much would be lost. Without reports, at which
    ranks meet, one with that step done saves whatever becomes of its peers: the loss comes a step
    before.
    """
    if late_steps > 0:
        return 1
    return -1 if saves_alone else 0


def has_own_saves(job: Job) -> bool:
    """Return whether each rank saves by itself after the last step of an epoch."""
    return not job.launcher_facts.has_reports


def list_machines(lives: Lifetimes, scenario: Scenario) -> Sequence[int]:
    """Return the lowest rank of each machine."""
    workers, nodes = scenario.job.workers, scenario.cluster.nodes or 1
    if lives.lost == "worker":
        return range(workers)
    has_spares = scenario.job.launcher_facts.nodes.has_spares
    return range(0, workers, scenario.cluster.cpus_per_node if has_spares else workers // nodes)


def count_max_losses(lives: Lifetimes, scenario: Scenario) -> int:
    """Return the largest number of losses: the scenario's own, or the job's retries."""
    failure = scenario.job.failure
    retries = -1 if failure is None else failure.max_failures
    return lives.most if retries < 0 else min(lives.most, retries)


def _draw_life(lives: Lifetimes, draws: random.Random) -> float:
    """Return a drawn life in steps, by the inverse of Weibull's distribution."""
    scale = lives.mean_life_steps / math.gamma(1 + 1 / lives.shape)
    return float(scale * (-math.log(1.0 - draws.random())) ** (1 / lives.shape))
