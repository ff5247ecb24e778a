"""The answer for a restart, as functions of what was recorded.

A save is compared with by the state that trained on from it: the state with which the process that
made it began its next step. A schedule that moves after the save, or a job that saves before or
after something else, is right by that measure as long as the resumed process begins its first step
alike. A process that was killed before its next step leaves the state as the save began. Only
tensors of model and optimizer are due then: what a job does between a save and a step is not known.
Such a save may be passed over as well: it may not have had its name, or a mark that it is whole.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose

import msgspec

from chaos.check.state_snapshots import holds_nothing, is_rng, owner_of, owners_in
from chaos.guard.records import Finding, Level, Save
from chaos.model.event import Component, StateSeen
from chaos.model.events.state import group_of
from chaos.words import listed, plural

Key = tuple[object, ...]
Parts = Mapping[Key, Component]
ROUNDING = 1e-6  # of the norm of weights in 32 bits
_TENSORS = ("model", "optimizer")  # due of a save whose process made no step after it
_SETTINGS = ("optimizer settings", "schedule")  # which a command, or a number of ranks, may ask for
#: Steps of its own optimizer after which a part has shown in a loss: momentum moves the weights of
#: the next step, and a rate does so once it has been used. All other parts may show far later, as
#: a schedule at the end of an epoch, or in no loss, as an average.
SHOWN_AFTER = {"optimizer": 2, "optimizer settings": 3}
NAMES_SHOWN = 3
OF_NO_SAVE = "its state is that of no save in the guard's folder: nothing can be compared"


@dataclass(frozen=True)
class Load:
    """One file that was read before the first step."""

    path: str
    #: hashes of samples of its tensors (see `Save.tensors`)
    tensors: frozenset[str]


@dataclass(frozen=True)
class Entry:
    """One rank as its start begins to train."""

    rank: int
    ranks: int
    parts: tuple[Component, ...]
    loads: tuple[Load, ...] = ()
    #: started by the command of the start before it, of which no process is running any more; else
    #: it may be another training, or the same one with other settings
    is_same_job: bool = True
    #: its data come in an order of a generator that no part is of
    draws_apart: bool = False
    #: Ray Train gave it no checkpoint, whatever is stored
    is_given_none: bool = False


@dataclass(frozen=True)
class Origin:
    """The save that a start went on from, and by what it is known."""

    save: Save
    is_by_state: bool


def origin_of(entry: Entry, saves: Iterable[Save]) -> Origin | None:
    """Return the save whose model is trained now, else the last that was read; None without one.

    Of several with that model it is the one of which most came back, the rank's own and the newest.
    Where the optimizer is that of a newer save, it went on from that one, and its model is old.
    """
    every = list(saves)
    live = [save for save in every if save.is_live]
    mine = keyed(entry.parts)
    same = [(save, count) for save in live if (count := _agreement(mine, save, entry))]
    if same:
        best, _ = max(same, key=lambda s: (s[1], s[0].rank == entry.rank, s[0].at_s, s[0].step))
        return Origin(_save_of_optimizer(mine, best, every, entry) or best, is_by_state=True)
    for load in reversed(entry.loads):
        held = [save for save in live if save.tensors and load.tensors.issuperset(save.tensors)]
        if held:
            own = max(held, key=lambda save: (save.rank == entry.rank, save.at_s, save.step))
            return Origin(own, is_by_state=False)
    return None


def keyed(parts: Iterable[Component]) -> Parts:
    """Return parts by a key that another start has as well, whatever numbers its names have.

    An optimizer of an earlier phase shifts the numbers, so an owner of parts is known by its kind
    and structure, and among equals by its place and their count.
    """
    seen = StateSeen(attempt=0, rank=0, epoch=0, step=0, moment="entered", components=tuple(parts))
    owners = dict(owners_in(seen))

    def key(part: Component) -> Key:
        owner = owner_of(part.name)
        if not part.structure or owner not in owners:
            return (part.name,)
        return (*owners[owner], part.name.removeprefix(owner))

    return {key(part): part for part in seen.components}


def _agreement(mine: Parts, save: Save, entry: Entry) -> int:
    """Return how many parts are those of a save; 0 if its model is not."""
    found = 0
    for parts in filter(None, (save.entered, save.made)):
        due = {key: part for key, part in keyed(parts).items() if _is_comparable(part, save, entry)}
        models = [key for key, part in due.items() if group_of(part.name) == "model"]
        if models and all(_is_same(mine.get(key), due[key]) for key in models):
            found = max(found, sum(_is_same(mine.get(key), part) for key, part in due.items()))
    return found


def _save_of_optimizer(mine: Parts, save: Save, saves: Iterable[Save], entry: Entry) -> Save | None:
    """Return a newer save whose optimizer is trained now, if that of a save is another one."""

    def optimizer_parts(one: Save) -> Parts:
        return {
            key: part
            for key, part in keyed(one.entered or one.made).items()
            if group_of(part.name) == "optimizer"
            and not (holds_nothing(part) or part.pending)
            and _is_comparable(part, one, entry)
        }

    def is_trained(parts: Parts) -> bool:
        return bool(parts) and all(_is_same(mine.get(key), part) for key, part in parts.items())

    if not (own := optimizer_parts(save)) or is_trained(own):
        return None
    newer = [one for one in saves if one.step > save.step and is_trained(optimizer_parts(one))]
    return max(newer, key=lambda one: (one.rank == entry.rank, one.at_s), default=None)


def _is_comparable(part: Component, save: Save, entry: Entry) -> bool:
    """Return whether a part of a save must be the rank's: a share is of one rank among so many."""
    return part.share is None or _is_own(save, entry)


def _is_own(save: Save, entry: Entry) -> bool:
    return save.rank == entry.rank and save.ranks == entry.ranks


def _is_same(ours: Component | None, due: Component) -> bool:
    if holds_nothing(ours) or holds_nothing(due):
        return holds_nothing(ours) and holds_nothing(due)
    return ours is not None and ours.digest == due.digest


def _is_near(ours: Component | None, due: Component, made: Component | None) -> bool:
    """Return whether a model that its job moves between a save and the next step has its size.

    Steps that are aware of sharpness move the weights, and then back by as much: rounding is left,
    of gradients that three ranks or more add up in another order once they have begun anew.
    """
    if ours is None or group_of(due.name) != "model" or _is_same(made, due):
        return False
    here, there = ours.size, due.size
    if not (isinstance(here, float) and isinstance(there, float)):
        return False
    return isclose(here, there, rel_tol=ROUNDING)


# -- the state -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateAnswer:
    """The parts that were compared, and the findings."""

    compared: tuple[str, ...]
    findings: tuple[Finding, ...]
    #: generators that do not go on where they stood; None where that is not known
    generators: tuple[str, ...] | None = None
    #: of the parts that were compared, those that are other
    differing: tuple[str, ...] = ()
    #: a generator stands as it did, and so does each that training was seen to draw from
    has_same_generators: bool = False
    #: findings of parts that losses must have shown by now, with the optimizers of these parts
    provable: Mapping[Finding, tuple[str, ...]] = field(default_factory=dict)


def state_answer(
    entry: Entry,
    save: Save,
    *,
    first: Sequence[Component],
    began: Sequence[Component] = (),
    others: Sequence[Save],
) -> StateAnswer:
    """Return how the state with which a rank trains on compares with its save.

    `first` is the state at the first step of the training, `began` that at the first step of the
    start that made the save: from a generator that has not moved since then training draws nothing.
    `others` are all saves known.
    """
    mine, due, made = keyed(entry.parts), keyed(save.entered or save.made), keyed(save.made)
    moving = frozenset[Key]() if save.entered else _moving(_alike(save, others))
    compared = list[str]()
    lost: dict[tuple[str, str], list[Component]] = {}
    for key, part in due.items():
        ours = mine.get(key)
        is_dropped = key in moving or _is_of_nobody(key, mine)
        if is_dropped or not _is_due(part, ours, save, entry):
            continue
        compared.append(part.name)
        if not (
            _is_same(ours, part)
            or _is_near(ours, part, made.get(key))
            or _is_of_a_peer(ours, key, save, others)
        ):
            how = _how(ours, part, key, keyed(first), others, save)
            lost.setdefault((group_of(part.name), how), []).append(part)
    findings = dict[Finding, tuple[str, ...]]()
    for (group, how), parts in lost.items():
        text = f"{_named(group, [part.name for part in parts])}: {how}"
        finding = Finding(_level(group, save, entry, others), "state", text, group)
        findings[finding] = _owners(parts, entry) if group in SHOWN_AFTER else ()
    generators, has_same_generators = _compare_generators(entry, save, began, others)
    return StateAnswer(
        tuple(compared),
        tuple(findings),
        generators,
        tuple(part.name for parts in lost.values() for part in parts),
        has_same_generators=has_same_generators,
        provable={finding: owners for finding, owners in findings.items() if owners},
    )


def _owners(parts: Sequence[Component], entry: Entry) -> tuple[str, ...]:
    """Return the names that the owners of a save's parts have in a restart."""
    mine = keyed(entry.parts)
    names = [(mine.get(key) or part).name for key, part in keyed(parts).items()]
    return tuple(dict.fromkeys(map(owner_of, names)))


def _compare_generators(
    entry: Entry, save: Save, began: Sequence[Component], others: Sequence[Save]
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the generators that did not go on, None if none is known; and whether all stand.

    Without a step after the save its own generators are the measure, if no other save of the job
    was seen to be followed by a draw before the next step.
    """
    if not _is_own(save, entry):
        return None, False
    mine, before = keyed(entry.parts), keyed(began)
    due = {k: part for k, part in keyed(save.entered or save.made).items() if is_rng(part.name)}
    still = frozenset(due) if save.entered else _still(_alike(save, others))
    known = [(key, part) for key, part in due.items() if key in mine and key in still]
    drawn = [(key, part) for key, part in known if not _is_same(before.get(key), part)]
    stopped = tuple(part.name for key, part in drawn if not _is_same(mine[key], part))
    # One that training does not draw from may be seeded anew in each process.
    is_same = not stopped and any(_is_same(mine[key], part) for key, part in known)
    # None is drawn from where the job draws by its own, or none is seen: a model that is called
    # within the optimizer's step shows no generators before it.
    are_known = bool(drawn) and not entry.draws_apart
    return stopped or (() if are_known else None), is_same and not entry.draws_apart


def _is_due(part: Component, ours: Component | None, save: Save, entry: Entry) -> bool:
    # What was empty may be filled by a load alone, and is nothing that could be lost.
    if part.pending or holds_nothing(part) or is_rng(part.name):
        return False
    if not _is_comparable(part, save, entry):
        return False
    if save.rank != entry.rank and not _is_judged_elsewhere(part, ours):
        return False
    return bool(save.entered) or group_of(part.name) in _TENSORS


def _alike(save: Save, others: Sequence[Save]) -> list[Save]:
    """Return the saves of a rank of which the state at the next step is known."""
    return [one for one in others if one.rank == save.rank and one.entered]


def _moving(saves: Sequence[Save]) -> frozenset[Key]:
    """Return the parts that a job changes between a save and its next step: a new optimizer."""
    both = [(keyed(save.made), keyed(save.entered)) for save in saves]
    return frozenset(
        key
        for made, entered in both
        for key, part in made.items()
        if not _is_same(entered.get(key), part)
    )


def _still(saves: Sequence[Save]) -> frozenset[Key]:
    """Return the parts that no save of a job was seen to change before the next step."""
    made = [frozenset(keyed(save.made)) for save in saves]
    return frozenset[Key]().union(*made) - _moving(saves)


def _level(group: str, save: Save, entry: Entry, others: Sequence[Save]) -> Level:
    if group in _SETTINGS and not (entry.is_same_job and entry.ranks == save.ranks):
        return "notice"
    # Killed after its very first save: nothing shows yet what it does between a save and a step.
    return "mismatch" if save.is_past or _alike(save, others) else "notice"


def _is_of_nobody(key: Key, mine: Parts) -> bool:
    """Return whether the rank lacks the owner of a part altogether: then it cannot be lost."""
    return len(key) > 1 and all(other[:-1] != key[:-1] for other in mine)


def _is_of_a_peer(ours: Component | None, key: Key, save: Save, others: Sequence[Save]) -> bool:
    """Return whether buffers are those of another rank: DDP gives rank 0's to all as it is made."""
    if ours is None or group_of(ours.name) != "buffers":
        return False
    peers = (one for one in others if one.step == save.step and one.rank != save.rank)
    theirs = (keyed(one.entered).get(key) for one in peers)
    return any(part is not None and _is_same(ours, part) for part in theirs)


def _is_judged_elsewhere(part: Component, ours: Component | None) -> bool:
    """Return whether a rank that did not save must have the part as the rank that did.

    Ranks have the same model. An optimizer may be split over them, but none is empty.
    """
    group = group_of(part.name)
    return group == "model" or (group == "optimizer" and holds_nothing(ours))


def _how(
    ours: Component | None,
    due: Component,
    key: Key,
    first: Parts,
    others: Sequence[Save],
    save: Save,
) -> str:
    """Return in words what a part is instead; only what its digest shows."""
    if holds_nothing(ours):
        return f"not restored, empty now; {plural(due.count, 'entry', 'entries')} at the save"
    assert ours is not None
    if key in first and _is_same(ours, first[key]):
        return "reset, as at the first step of the training"
    for other in sorted(others, key=lambda one: -one.at_s):
        parts = keyed(other.entered or other.made)
        if other.step != save.step and key in parts and _is_same(ours, parts[key]):
            age = "older" if other.step < save.step else "newer"
            return f"{age}, as at the save of step {other.step}"
    if isinstance(ours.size, float) and isinstance(due.size, float) and ours.size != due.size:
        return f"other than at the save: {due.size:.6g} then, {ours.size:.6g} now"
    return "other than at the save"


def _named(group: str, names: Sequence[str]) -> str:
    if names == [group]:
        return group
    if len(names) <= NAMES_SHOWN:
        return f"{group} ({listed(names)})"
    return f"{group} ({', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more)"


# -- the place -----------------------------------------------------------------------------------


def place_findings(
    entry: Entry,
    origin: Origin | None,
    saves: Sequence[Save],
    *,
    first: Sequence[Component],
    is_whole: Callable[[Save], bool],
) -> Iterator[Finding]:
    """Yield what is wrong with where a rank went on; `is_whole`: its files are as the save left it.

    Without an origin, `first` is the state at the first step of the training.
    """
    if origin is None:
        yield from _without_origin(entry, saves, first, is_whole)
        return
    here = origin.save
    newer = [
        save
        for save in saves
        if save.is_live
        and save.rank == here.rank
        and (save.at_s, save.step) > (here.at_s, here.step)
        and save.step > here.step
        and save.has_optimizer >= here.has_optimizer
        and _is_there(save, saves, is_whole)
    ]
    if not newer:
        return
    best = max(newer, key=lambda save: (save.is_past, save.at_s))
    is_read_alike = any(_family(load.path) in map(_family, best.files) for load in entry.loads)
    yield Finding(
        "mismatch" if is_read_alike and best.is_past and entry.is_same_job else "notice",
        "older",
        f"it goes on from step {here.step}, and the save of step {best.step} is there, and is not "
        f"cut off: {next(iter(best.files))}",
    )


def _is_there(save: Save, saves: Sequence[Save], is_whole: Callable[[Save], bool]) -> bool:
    """Return whether the files of a save are whole, and those of all ranks that made it as well.

    Ranks that each have files of their own go on from the newest save that each of them has.
    """
    latest = {one.rank: one for one in saves if one.step == save.step and one.is_live}
    return all(is_whole(one) for one in (latest | {save.rank: save}).values())


def _without_origin(
    entry: Entry,
    saves: Sequence[Save],
    first: Sequence[Component],
    is_whole: Callable[[Save], bool],
) -> Iterator[Finding]:
    live = [save for save in saves if save.is_live]
    if not live:
        return
    there = [save for save in live if is_whole(save)]
    # A model alone may be for others: of such a job nothing shows that it goes on from it.
    past = [save for save in there if save.is_past and save.has_optimizer]
    mine, begun = keyed(entry.parts), keyed(first)
    models = [key for key, part in begun.items() if group_of(part.name) == "model"]
    is_first = bool(models) and all(_is_same(mine.get(key), begun[key]) for key in models)
    states = [part for part in entry.parts if group_of(part.name) == "optimizer"]
    is_empty = bool(states) and all(map(holds_nothing, states)) and not entry.loads
    if not (is_first or is_empty):
        yield Finding("notice", "unknown", OF_NO_SAVE)
        return
    why = "its state is that of the first step" if is_first else "it read no file and is untrained"
    last = max(past or there or live, key=lambda save: save.at_s)
    tail = "no save is there as it was left"
    if there:
        tail = f"the save of step {last.step} is there"
    elif entry.is_given_none:
        tail = "Ray Train gave it no checkpoint"
    elif streamed := [save for save in live if not save.files]:
        tail = f"of the save of step {streamed[-1].step} no file is known"
    path = f": {next(iter(last.files))}" if there else ""
    yield Finding(
        "mismatch" if past and entry.is_same_job else "notice",
        "began-anew",
        f"it began anew ({why}); {tail}{path}",
    )


def _family(path: str) -> str:
    """Return a path without its numbers, which it has in common with its successors."""
    return re.sub(r"\d+", "#", path)


def combined(findings: Iterable[Finding], accepted: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return findings, the mismatches first, each once; `accepted` are subjects of no mismatch."""
    unique = dict.fromkeys(
        msgspec.structs.replace(finding, level="accepted")
        if finding.level == "mismatch" and finding.subject in accepted
        else finding
        for finding in findings
    )
    return tuple(sorted(unique, key=lambda finding: finding.level != "mismatch"))
