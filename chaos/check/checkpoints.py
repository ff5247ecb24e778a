"""Is every committed checkpoint whole, whenever storage was looked at?"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from chaos.check.attempt import Commit
from chaos.check.files import is_own
from chaos.check.repeats import repeats
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.saved import Saved
from chaos.check.stored import Stored, is_elsewhere, stored
from chaos.check.trial import Course, Trial
from chaos.model.event import PartUploaded, StorageSeen
from chaos.model.verdict import Anomaly, CheckResult

NAME = "checkpoints"


def check(trial: Trial) -> CheckResult:
    """Require that storage holds each committed checkpoint, file for file, until Ray removes it.

    Looked at after each strike and when the run is over: the promise of
    integrity (what was uploaded is what lies there, and nothing of another
    attempt beside it: ray-project/ray#41700) and of durability (after the
    first commit one whole checkpoint is always there). Nothing is loaded for
    it: the same bytes load as well as those that were uploaded, and of a file
    above 64 MiB only its size is compared. What was not seen on its way
    cannot be compared, nor what lies outside the run's storage. A file of the
    job's own that cannot be read, so that the attempt dies of it, is no
    checkpoint either: its writing was cut off, and it was trusted all the
    same (huggingface/transformers#35782). In doubt is one whose own count of
    training is not the baseline's at that place: a restart from it would go on
    elsewhere (Lightning-AI/pytorch-lightning#12991), if it counts the whole
    training. That a file holds other bytes is told, and proves nothing.
    """
    seen = list(trial.history.of(StorageSeen))
    parts = trial.history.count(PartUploaded)
    looks = list(_looks(stored(trial.run), seen))
    anomalies = [*_damaged(looks), *_unreadable(trial)]
    due = _due(trial.reference) if trial.reference is not None else (False, False)
    if not anomalies and due[0] and not seen:
        return unknown(NAME, "nobody looked at the storage")
    if not anomalies and due[1] and not parts and trial.run.lineage.commits:
        return unknown(NAME, "what was uploaded was not seen")
    loaded = sum(len(loads) for loads in trial.run.files.loads.values())
    looked = len(seen) if looks or parts else 0
    if not anomalies and not looked and not loaded:
        return nothing_due(NAME, "no checkpoint was uploaded, or storage was not watched")
    whole = {look.commit.checkpoint for look in looks if look.doubt is None}
    beside = _beside(trial)
    doubts = (*(look.doubt for look in looks if look.doubt is not None), *_doubts(beside))
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=tuple(dict.fromkeys(doubts)),
        evidence=looked + loaded,
        summary=f"{plural(len(whole), 'checkpoint')} whole, each time of {len(seen)} that storage "
        f"was looked at{_note(beside)}",
        measures={"files_with_other_bytes": ", ".join(beside.other_bytes()) or None}
        if beside
        else None,
    )


def _beside(trial: Trial) -> Saved | None:
    if trial.reference is None or not trial.plan.ops or trial.is_by_steps:
        return None
    ignore = trial.plan.expect.ignore_metrics
    until = min((again.since for again in repeats(trial)), default=math.inf)
    return Saved(trial.run, trial.reference, trial.began, trial.resized, ignore, until)


def _doubts(beside: Saved | None) -> Iterator[str]:
    first = next(beside.other_counts(), None) if beside is not None else None
    if first is None:
        return
    saved = first.saved
    place = f"epoch {saved.epoch}" + (f", step {saved.step}" if saved.step else "")
    yield (
        f"`{first.name}` in {PurePath(saved.path).name} is {first.ours} where rank {saved.rank} "
        f"saved it at {place}, {first.due} in the baseline: a restart from it may go on elsewhere, "
        "and none was seen; strike again after it, or name it in `expect.ignore_metrics` if the "
        "job counts from its last start"
    )


def _note(beside: Saved | None) -> str:
    other = {} if beside is None else beside.other_bytes()
    if not other:
        return ""
    named = ", ".join(f"{name} (since epoch {epoch})" for name, epoch in sorted(other.items()))
    return f"; {named} hold other bytes than in the baseline, which alone proves nothing"


def _due(reference: Course) -> tuple[bool, bool]:
    """Say whether the baseline's storage was looked at, and whether it saw uploads."""
    looked = reference.history.count(StorageSeen) > 0
    return looked, reference.history.count(PartUploaded) > 0


@dataclass(frozen=True, slots=True)
class _Look:
    """One committed checkpoint, as one look at storage found it.

    `damage` says what is wrong with it, `doubt` why that cannot be told.
    """

    commit: Commit
    number: int
    seen: StorageSeen
    damage: str | None
    doubt: str | None


def _looks(known: Stored, seen: list[tuple[int, StorageSeen]]) -> Iterator[_Look]:
    for number, storage in seen:
        for commit in known.due(number, storage):
            assert commit.checkpoint is not None
            doubt = damage = None
            if is_elsewhere(commit.checkpoint):
                doubt = f"{commit.checkpoint} lies outside the run's storage, and was not looked at"
            else:
                damage = known.damage(commit, storage)
            if damage is None and doubt is None and not known.parts.get(commit.checkpoint):
                doubt = f"what was uploaded of {commit.checkpoint} was not seen"
            yield _Look(commit, number, storage, damage, doubt)


def _damaged(looks: list[_Look]) -> Iterator[Anomaly]:
    told: set[str | None] = set()
    for look in looks:
        commit = look.commit
        if look.damage is None or commit.checkpoint in told:
            continue
        told.add(commit.checkpoint)
        when = "when the run was over" if look.seen.op is None else f"at op {look.seen.op}"
        beside = [other for other in looks if other.number == look.number]
        none = "; not one whole checkpoint was left" if all(o.damage for o in beside) else ""
        yield Anomaly(
            message=f"{commit.checkpoint} of epoch {commit.epoch} was committed, and {when} "
            f"it {look.damage}{none}",
            events=(commit.number, look.number),
        )


def _unreadable(trial: Trial) -> Iterator[Anomaly]:
    files = trial.run.files
    told: set[str] = set()
    for (index, rank), loads in sorted(files.loads.items()):
        attempt = next((a for a in trial.run.attempts if a.index == index), None)
        failed = [(n, e) for n, e in loads if e.error is not None]
        if attempt is None or not failed or index == 0 or rank in attempt.first_steps:
            continue
        number, load = failed[-1]
        made_good = any(is_own(later) for n, later in loads if n > number)
        torn = files.torn(load.path, before=number)
        was_saved = any(s.path == load.path and s.number < number for s in files.saves)
        if made_good or index in trial.hits or not was_saved or load.path in told:
            continue
        told.add(load.path)
        why = "" if torn is None else f", whose writing by rank {torn.rank} was cut off"
        yield Anomaly(
            message=f"rank {rank} could not read {load.path}{why}, and attempt {index} ended on "
            f"it ({load.error}): write to a temporary name, then rename",
            events=(*((torn.number,) if torn else ()), number),
        )
