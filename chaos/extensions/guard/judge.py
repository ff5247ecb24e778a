"""The answer for a restart, as functions of what was recorded.

A save is compared with by the state that trained on from it: the state with which the process that
made it began its next step. A schedule that moves after the save, or a job that saves before or
after something else, is right by that measure as long as the resumed process begins its first step
alike. A process that was killed before its next step leaves the state as the save began. Only
tensors of model and optimizer are due then: what a job does between a save and a step is not known.
Such a save may be passed over as well: it may not have had its name, or a mark that it is whole.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose

import msgspec

from chaos.extensions.guard.records import GuardFinding, Level, RankSave
from chaos.model.event import Component
from chaos.model.events.state import find_group
from chaos.resume.files import find_common_places, mask_path_numbers
from chaos.resume.state_snapshots import (
    PartKey,
    PartStanding,
    find_equal_keys,
    has_owner,
    has_same_content,
    holds_nothing,
    is_rng,
    judge_standing,
    key_parts,
    parse_owner,
)
from chaos.wording import join_names, plural

Parts = Mapping[PartKey, Component]
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
class FileLoad:
    """One file that was read before the first step."""

    path: str
    #: hashes of samples of its tensors (see `RankSave.tensors`)
    tensors: frozenset[str]


@dataclass(frozen=True)
class RankEntry:
    """One rank as its start begins to train."""

    rank: int
    ranks: int
    parts: tuple[Component, ...]
    loads: tuple[FileLoad, ...] = ()
    #: started by the command of the start before it, of which no process is running any more; else
    #: it may be another training, or the same one with other settings
    is_same_job: bool = True
    #: its data come in an order of a generator that no part is of
    has_private_generators: bool = False
    #: Ray Train gave it no checkpoint, whatever is stored
    has_no_checkpoint: bool = False


@dataclass(frozen=True)
class Origin:
    """The save that a start went on from, and by what it is known."""

    save: RankSave
    is_by_state: bool


def find_origin(entry: RankEntry, saves: Iterable[RankSave]) -> Origin | None:
    """Return the save whose model is trained now, else the last that was read; None without one.

    Of several with that model it is the one of which most came back, the rank's own and the newest.
    Where the optimizer is that of a newer save, it went on from that one, and its model is old.
    """
    all_saves = list(saves)
    live_saves = [save for save in all_saves if save.is_live]
    current_parts = key_parts(entry.parts)
    scored_saves = [
        (save, count)
        for save in live_saves
        if (count := _count_equal_parts(current_parts, save, entry))
    ]
    if scored_saves:
        best_save, _ = max(
            scored_saves, key=lambda s: (s[1], s[0].rank == entry.rank, s[0].at_s, s[0].step)
        )
        return Origin(
            _find_optimizer_save(current_parts, best_save, all_saves, entry) or best_save,
            is_by_state=True,
        )
    for load in reversed(entry.loads):
        matching_saves = [
            save for save in live_saves if save.tensors and load.tensors.issuperset(save.tensors)
        ]
        if matching_saves:
            loaded_save = max(
                matching_saves, key=lambda save: (save.rank == entry.rank, save.at_s, save.step)
            )
            return Origin(loaded_save, is_by_state=False)
    return None


def _count_equal_parts(current_parts: Parts, save: RankSave, entry: RankEntry) -> int:
    """Return how many parts are those of a save; 0 if its model is not."""
    best_count = 0
    for parts in filter(None, (save.entered, save.made)):
        saved_parts = {
            key: part for key, part in key_parts(parts).items() if _is_comparable(part, save, entry)
        }
        equal_keys = find_equal_keys(current_parts, saved_parts)
        models = _find_models(saved_parts)
        if models and models <= equal_keys:
            best_count = max(best_count, len(equal_keys))
    return best_count


def _find_models(parts: Parts) -> set[PartKey]:
    return {key for key, part in parts.items() if find_group(part.name) == "model"}


def _find_optimizer_save(
    current_parts: Parts, save: RankSave, saves: Iterable[RankSave], entry: RankEntry
) -> RankSave | None:
    """Return a newer save whose optimizer is trained now, if that of a save is another one."""

    def optimizer_parts(candidate: RankSave) -> Parts:
        return {
            key: part
            for key, part in key_parts(candidate.entered or candidate.made).items()
            if find_group(part.name) == "optimizer"
            and not (holds_nothing(part) or part.pending)
            and _is_comparable(part, candidate, entry)
        }

    def is_trained(parts: Parts) -> bool:
        return bool(parts) and parts.keys() == find_equal_keys(current_parts, parts)

    if not (save_parts := optimizer_parts(save)) or is_trained(save_parts):
        return None
    newer_saves = [
        candidate
        for candidate in saves
        if candidate.step > save.step and is_trained(optimizer_parts(candidate))
    ]
    return max(
        newer_saves,
        key=lambda candidate: (candidate.rank == entry.rank, candidate.at_s),
        default=None,
    )


def _is_comparable(part: Component, save: RankSave, entry: RankEntry) -> bool:
    """Return whether a part of a save must be the rank's: a share is of one rank among so many."""
    return part.share is None or _is_own(save, entry)


def _is_own(save: RankSave, entry: RankEntry) -> bool:
    return save.rank == entry.rank and save.ranks == entry.ranks


def _is_near(part: Component | None, saved_part: Component, start_part: Component | None) -> bool:
    """Return whether a model that its job moves between a save and the next step has its size.

    Steps that are aware of sharpness move the weights, and then back by as much: rounding is left,
    of gradients that three ranks or more add up in another order once they have begun anew.
    """
    if (
        part is None
        or find_group(saved_part.name) != "model"
        or has_same_content(start_part, saved_part)
    ):
        return False
    size, saved_size = part.size, saved_part.size
    if not (isinstance(size, float) and isinstance(saved_size, float)):
        return False
    return isclose(size, saved_size, rel_tol=ROUNDING)


# -- the state -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StateAnswer:
    """The parts that were compared, and the findings."""

    compared_names: tuple[str, ...]
    findings: tuple[GuardFinding, ...]
    #: generators that do not go on where they stood; None where that is not known
    stopped_generators: tuple[str, ...] | None = None
    #: of the parts that were compared, those that are other
    differing_names: tuple[str, ...] = ()
    #: a generator stands as it did, and so does each that training was seen to draw from
    has_same_generators: bool = False
    #: findings of parts that losses must have shown by now, with the optimizers of these parts
    provable_findings: Mapping[GuardFinding, tuple[str, ...]] = field(default_factory=dict)


def compare_state(
    entry: RankEntry,
    save: RankSave,
    *,
    initial_parts: Sequence[Component],
    start_entry_parts: Sequence[Component] = (),
    all_saves: Sequence[RankSave],
) -> StateAnswer:
    """Return how the state with which a rank trains on compares with its save.

    `initial_parts` is the state at the first step of the training, `start_entry_parts` that at the
    first step of the start that made the save: from a generator that has not moved since then
    training draws nothing. `all_saves` are all saves known.
    """
    current_parts, saved_parts, start_parts, first_parts = map(
        key_parts, (entry.parts, save.entered or save.made, save.made, initial_parts)
    )
    changing_keys = (
        frozenset[PartKey]()
        if save.entered
        else _find_changing_parts(_find_entered_saves(save, all_saves))
    )
    compared_names = list[str]()
    lost_parts: dict[tuple[str, str], list[Component]] = {}
    for key, part in saved_parts.items():
        current_part = current_parts.get(key)
        is_dropped = key in changing_keys or not has_owner(key, current_parts)
        if is_dropped or not _must_return(part, current_part, save, entry):
            continue
        compared_names.append(part.name)
        standing = judge_standing(current_part, part, first_parts.get(key))
        if not (
            standing == "restored"
            or _is_near(current_part, part, start_parts.get(key))
            or _matches_peer(current_part, key, save, all_saves)
        ):
            difference = _describe_difference(standing, current_part, part, key, all_saves, save)
            lost_parts.setdefault((find_group(part.name), difference), []).append(part)
    findings = dict[GuardFinding, tuple[str, ...]]()
    for (group, difference), parts in lost_parts.items():
        text = f"{_describe_group(group, [part.name for part in parts])}: {difference}"
        finding = GuardFinding(_find_level(group, save, entry, all_saves), "state", text, group)
        findings[finding] = _find_owners(parts, entry) if group in SHOWN_AFTER else ()
    generators, has_same_generators = _compare_generators(entry, save, start_entry_parts, all_saves)
    return StateAnswer(
        tuple(compared_names),
        tuple(findings),
        generators,
        tuple(part.name for parts in lost_parts.values() for part in parts),
        has_same_generators=has_same_generators,
        provable_findings={finding: owners for finding, owners in findings.items() if owners},
    )


def _find_owners(parts: Sequence[Component], entry: RankEntry) -> tuple[str, ...]:
    """Return the names that the owners of a save's parts have in a restart."""
    current_parts = key_parts(entry.parts)
    names = [(current_parts.get(key) or part).name for key, part in key_parts(parts).items()]
    return tuple(dict.fromkeys(map(parse_owner, names)))


def _compare_generators(
    entry: RankEntry,
    save: RankSave,
    start_entry_parts: Sequence[Component],
    all_saves: Sequence[RankSave],
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the generators that did not go on, None if none is known; and whether all stand.

    Without a step after the save its own generators are the measure, if no other save of the job
    was seen to be followed by a draw before the next step.
    """
    if not _is_own(save, entry):
        return None, False
    current_parts, parts_before = key_parts(entry.parts), key_parts(start_entry_parts)
    saved_generators = {
        k: part for k, part in key_parts(save.entered or save.made).items() if is_rng(part.name)
    }
    unchanged_keys = (
        frozenset(saved_generators)
        if save.entered
        else _find_unchanged_parts(_find_entered_saves(save, all_saves))
    )
    comparable = [
        (key, part)
        for key, part in saved_generators.items()
        if key in current_parts and key in unchanged_keys
    ]
    drawn_generators = [
        (key, part) for key, part in comparable if not has_same_content(parts_before.get(key), part)
    ]
    stopped_generators = tuple(
        part.name
        for key, part in drawn_generators
        if not has_same_content(current_parts[key], part)
    )
    # One that training does not draw from may be seeded anew in each process.
    is_same = not stopped_generators and any(
        has_same_content(current_parts[key], part) for key, part in comparable
    )
    # None is drawn from where the job draws by its own, or none is seen: a model that is called
    # within the optimizer's step shows no generators before it.
    are_known = bool(drawn_generators) and not entry.has_private_generators
    return stopped_generators or (
        () if are_known else None
    ), is_same and not entry.has_private_generators


def _must_return(
    part: Component, current_part: Component | None, save: RankSave, entry: RankEntry
) -> bool:
    # What was empty may be filled by a load alone, and is nothing that could be lost.
    if part.pending or holds_nothing(part) or is_rng(part.name):
        return False
    if not _is_comparable(part, save, entry):
        return False
    if save.rank != entry.rank and not _is_shared_part(part, current_part):
        return False
    return bool(save.entered) or find_group(part.name) in _TENSORS


def _find_entered_saves(save: RankSave, all_saves: Sequence[RankSave]) -> list[RankSave]:
    """Return the saves of a rank of which the state at the next step is known."""
    return [
        candidate for candidate in all_saves if candidate.rank == save.rank and candidate.entered
    ]


def _find_changing_parts(saves: Sequence[RankSave]) -> frozenset[PartKey]:
    """Return the parts that a job changes between a save and its next step: a new optimizer."""
    part_pairs = [(key_parts(save.made), key_parts(save.entered)) for save in saves]
    return frozenset[PartKey]().union(
        *(parts.keys() - find_equal_keys(entered, parts) for parts, entered in part_pairs)
    )


def _find_unchanged_parts(saves: Sequence[RankSave]) -> frozenset[PartKey]:
    """Return the parts that no save of a job was seen to change before the next step."""
    saved_keys = [frozenset(key_parts(save.made)) for save in saves]
    return frozenset[PartKey]().union(*saved_keys) - _find_changing_parts(saves)


def _find_level(
    group: str, save: RankSave, entry: RankEntry, all_saves: Sequence[RankSave]
) -> Level:
    if group in _SETTINGS and not (entry.is_same_job and entry.ranks == save.ranks):
        return "notice"
    # Killed after its very first save: nothing shows yet what it does between a save and a step.
    return "mismatch" if save.is_past or _find_entered_saves(save, all_saves) else "notice"


def _matches_peer(
    current_part: Component | None, key: PartKey, save: RankSave, all_saves: Sequence[RankSave]
) -> bool:
    """Return whether buffers are those of another rank: DDP gives rank 0's to all as it is made."""
    if current_part is None or find_group(current_part.name) != "buffers":
        return False
    peers = (
        candidate
        for candidate in all_saves
        if candidate.step == save.step and candidate.rank != save.rank
    )
    peer_parts = (key_parts(candidate.entered).get(key) for candidate in peers)
    return any(part is not None and has_same_content(current_part, part) for part in peer_parts)


def _is_shared_part(part: Component, current_part: Component | None) -> bool:
    """Return whether a rank that did not save must have the part as the rank that did.

    Ranks have the same model. An optimizer may be split over them, but none is empty.
    """
    group = find_group(part.name)
    return group == "model" or (group == "optimizer" and holds_nothing(current_part))


def _describe_difference(
    standing: PartStanding,
    current_part: Component | None,
    saved_part: Component,
    key: PartKey,
    all_saves: Sequence[RankSave],
    save: RankSave,
) -> str:
    """Return in words what a part is instead; only what its digest shows."""
    if current_part is None or standing == "not restored":
        return (
            f"not restored, empty now; {plural(saved_part.count, 'entry', 'entries')} at the save"
        )
    if standing == "reset":
        return "reset, as at the first step of the training"
    for other_save in sorted(all_saves, key=lambda candidate: -candidate.at_s):
        parts = key_parts(other_save.entered or other_save.made)
        if (
            other_save.step != save.step
            and key in parts
            and has_same_content(current_part, parts[key])
        ):
            age = "older" if other_save.step < save.step else "newer"
            return f"{age}, as at the save of step {other_save.step}"
    if (
        isinstance(current_part.size, float)
        and isinstance(saved_part.size, float)
        and current_part.size != saved_part.size
    ):
        return f"other than at the save: {saved_part.size:.6g} then, {current_part.size:.6g} now"
    return "other than at the save"


def _describe_group(group: str, names: Sequence[str]) -> str:
    if names == [group]:
        return group
    if len(names) <= NAMES_SHOWN:
        return f"{group} ({join_names(names)})"
    return f"{group} ({', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more)"


# -- the place -----------------------------------------------------------------------------------


def find_place_defects(
    entry: RankEntry,
    origin: Origin | None,
    saves: Sequence[RankSave],
    *,
    initial_parts: Sequence[Component],
    is_whole: Callable[[RankSave], bool],
) -> Iterator[GuardFinding]:
    """Yield what is wrong with where a rank went on; `is_whole`: its files are as the save left it.

    Without an origin, `initial_parts` is the state at the first step of the training.
    """
    if origin is None:
        yield from _judge_missing_origin(entry, saves, initial_parts, is_whole)
        return
    origin_save = origin.save
    newer_saves = [
        save
        for save in saves
        if save.is_live
        and save.rank == origin_save.rank
        and (save.at_s, save.step) > (origin_save.at_s, origin_save.step)
        and save.step > origin_save.step
        and save.has_optimizer >= origin_save.has_optimizer
        and _is_complete(save, saves, is_whole)
    ]
    if not newer_saves:
        return
    best_save = max(newer_saves, key=lambda save: (save.is_past, save.at_s))
    has_read_family = any(
        mask_path_numbers(load.path) in map(mask_path_numbers, best_save.files)
        for load in entry.loads
    )
    yield GuardFinding(
        "mismatch" if has_read_family and best_save.is_past and entry.is_same_job else "notice",
        "older",
        f"it goes on from step {origin_save.step}, and the save of step {best_save.step} is "
        "there, and is not "
        f"cut off: {next(iter(best_save.files))}",
    )


def _is_complete(
    save: RankSave, saves: Sequence[RankSave], is_whole: Callable[[RankSave], bool]
) -> bool:
    """Return whether the files of a save are whole, and those of all ranks that save.

    Ranks that each have files of their own go on from the newest save that each of them has.
    """
    rank_saves = [
        candidate for candidate in saves if candidate.is_live and candidate.ranks == save.ranks
    ]
    whole_saves = (
        (candidate.step, candidate.rank)
        for candidate in rank_saves
        if candidate.step == save.step and is_whole(candidate)
    )
    all_ranks = (candidate.rank for candidate in rank_saves)
    return save.step in find_common_places(whole_saves, all_ranks)


def _judge_missing_origin(
    entry: RankEntry,
    saves: Sequence[RankSave],
    initial_parts: Sequence[Component],
    is_whole: Callable[[RankSave], bool],
) -> Iterator[GuardFinding]:
    live_saves = [save for save in saves if save.is_live]
    if not live_saves:
        return
    existing_saves = [save for save in live_saves if is_whole(save)]
    # A model alone may be for others: of such a job nothing shows that it goes on from it.
    finished_saves = [save for save in existing_saves if save.is_past and save.has_optimizer]
    current_parts, start_parts = key_parts(entry.parts), key_parts(initial_parts)
    models = _find_models(start_parts)
    is_first = bool(models) and models <= find_equal_keys(current_parts, start_parts)
    states = [part for part in entry.parts if find_group(part.name) == "optimizer"]
    is_empty = bool(states) and all(map(holds_nothing, states)) and not entry.loads
    if not (is_first or is_empty):
        yield GuardFinding("notice", "unknown", OF_NO_SAVE)
        return
    reason = (
        "its state is that of the first step" if is_first else "it read no file and is untrained"
    )
    newest_save = max(finished_saves or existing_saves or live_saves, key=lambda save: save.at_s)
    outcome = "no save is there as it was left"
    if existing_saves:
        outcome = f"the save of step {newest_save.step} is there"
    elif entry.has_no_checkpoint:
        outcome = "Ray Train gave it no checkpoint"
    elif streamed_saves := [save for save in live_saves if not save.files]:
        outcome = f"of the save of step {streamed_saves[-1].step} no file is known"
    path = f": {next(iter(newest_save.files))}" if existing_saves else ""
    yield GuardFinding(
        "mismatch" if finished_saves and entry.is_same_job else "notice",
        "began-anew",
        f"it began anew ({reason}); {outcome}{path}",
    )


def merge_findings(
    findings: Iterable[GuardFinding], accepted: Collection[str] = ()
) -> tuple[GuardFinding, ...]:
    """Return findings, the mismatches first, each once; `accepted` are subjects of no mismatch."""
    unique = dict.fromkeys(
        msgspec.structs.replace(finding, level="accepted")
        if finding.level == "mismatch" and finding.subject in accepted
        else finding
        for finding in findings
    )
    return tuple(sorted(unique, key=lambda finding: finding.level != "mismatch"))
