"""The groups of places: their names on the card, and their order for a question."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from chaos.errors import UsageError
from chaos.faults.world import Part
from chaos.model.launcher import LauncherFacts

Group: TypeAlias = Literal[
    "before the first commit",
    "before the first save",
    "mid-epoch",
    "epoch boundary",
    "during validation",
    "inside a save",
    "upload begins",
    "upload ends",
    "after report, before commit",
    "just after commit",
    "last epoch",
    "twice in one epoch",
    "several times in a run",
    "same place in two attempts",
    "during the recovery",
    "inside a load",
    "loader process lost",
    "save fails beside training",
    "answer of a put lost",
    "preempted at once",
    "notice before the loss",
    "node lost",
    "fewer workers after it",
]
GROUPS: tuple[Group, ...] = get_args(Group)
# Only a restart shows whether the job has such places, so runs with a fault must find them.
LOADS: Group = "inside a load"
IN_SAVES: Group = "inside a save"
ANSWERS: Group = "answer of a put lost"
SEVERAL: Group = "several times in a run"
PREEMPTED: Group = "preempted at once"
NODE_LOST: Group = "node lost"
# By themselves they end no attempt, or end it as an error of the job's own does.
OF_ERRORS: tuple[Group, ...] = ("loader process lost", "save fails beside training", ANSWERS)
# Each of their places takes several retries.
REPEATED: tuple[Group, ...] = (
    "twice in one epoch",
    SEVERAL,
    "same place in two attempts",
    "during the recovery",
    LOADS,
)

Kind: TypeAlias = Literal[
    "preempted at once",
    "preempted with notice",
    "node lost",
    "job requeued",
    "requeued in a recovery",
    "requeued inside a load",
    "requeued in a save",
    "worker killed",
    "killed in a recovery",
    "killed inside a load",
    "killed in a save or upload",
    "loader process killed",
    "save failed",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
_KINDS: Mapping[Group, Kind] = {
    PREEMPTED: "preempted at once",
    "notice before the loss": "preempted with notice",
    "node lost": "node lost",
    "fewer workers after it": "node lost",
    "during the recovery": "killed in a recovery",
    LOADS: "killed inside a load",
    "loader process lost": "loader process killed",
    "save fails beside training": "save failed",
    "answer of a put lost": "save failed",
    "inside a save": "killed in a save or upload",
    "upload begins": "killed in a save or upload",
    "upload ends": "killed in a save or upload",
}
# Of a job that Slurm starts again if it was requeued, and not if it failed.
_REQUEUED: Mapping[Kind, Kind] = {
    "worker killed": "job requeued",
    "killed in a recovery": "requeued in a recovery",
    "killed inside a load": "requeued inside a load",
    "killed in a save or upload": "requeued in a save",
}

_AT_REPORTS: tuple[Group, ...] = (
    "upload begins",
    "upload ends",
    "after report, before commit",
    "just after commit",
)
# One group, which is named after what a launcher's restart continues from.
_BEFORE: tuple[Group, Group] = ("before the first commit", "before the first save")

# The question of the user: does the job tolerate spot instances, or crashes of workers?
Question: TypeAlias = Literal["spot", "crash"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
_WORKERS: tuple[Group, ...] = (
    "after report, before commit",
    "mid-epoch",
    "last epoch",
    "during the recovery",
    LOADS,
    "just after commit",
    "epoch boundary",
    "during validation",
    "inside a save",
    "upload ends",
    "upload begins",
    "twice in one epoch",
    "several times in a run",
    "same place in two attempts",
    "loader process lost",
    "save fails beside training",
    "answer of a put lost",
    "before the first commit",
    "before the first save",
)
_NODES: tuple[Group, ...] = (NODE_LOST, "notice before the loss", "fewer workers after it")
_OF_QUEUES: tuple[Group, ...] = (PREEMPTED,)
# The groups of each question, those first that are most likely to show a defect: of the wrong jobs
# of the corpus the first two of "spot" show 22 of 25 (`python -m tests.bench.telling`, note 29).
ORDERS: Mapping[Question, tuple[Group, ...]] = {
    "spot": (_WORKERS[0], *_OF_QUEUES, *_NODES, *_WORKERS[1:]),
    "crash": _WORKERS,
}


def before_first(facts: LauncherFacts) -> Group:
    """Return the group of the places before there is anything to continue from."""
    return _BEFORE[0] if "reports" in facts.has else _BEFORE[1]


def groups_of(facts: LauncherFacts) -> tuple[Group, ...]:
    """Return the groups of a launcher's jobs, and those that are left out by name."""
    mine = before_first(facts)
    others = {*_BEFORE} - {mine} | ({*_OF_QUEUES} if facts.lacks_part("queue") else set())
    return tuple(group for group in GROUPS if group not in others)


def needs(group: Group) -> Part | None:
    """Return what such places need of a launcher; None if every job may have them."""
    if group in _OF_QUEUES:
        return "queue"
    return "reports" if group in _AT_REPORTS else None


def is_had(group: Group, facts: LauncherFacts) -> bool:
    """Return whether a launcher's jobs may have such places, and should outlive a fault there."""
    if facts.lacks_part(needs(group)):
        return False
    return group not in OF_ERRORS or not facts.begins_again_by_requeue


def needs_nodes(group: Group) -> bool:
    """Return whether such places take a node, of which there may be one alone."""
    return group in _NODES


def kind_of(group: Group, facts: LauncherFacts) -> Kind:
    """Return the kind of fault that a group of a launcher's jobs is counted under."""
    kind = _KINDS.get(group, "worker killed")
    is_requeued = facts.begins_again_by_requeue
    return _REQUEUED.get(kind, kind) if is_requeued else kind


def kinds_of(facts: LauncherFacts) -> tuple[Kind, ...]:
    """Return the kinds of the groups of a launcher's jobs."""
    found = {kind_of(group, facts) for group in groups_of(facts) if is_had(group, facts)}
    return tuple(kind for kind in KINDS if kind in found)


def chosen_groups(words: Sequence[str], question: Question = "spot") -> tuple[Group, ...]:
    """Return the groups that `--places` names, by any part of their names.

    If it is empty, those of the question. Raises `UsageError` for a word that
    names no group.
    """
    chosen: set[Group] = set()
    for word in (part.strip().lower() for text in words for part in text.split(";")):
        found = [g for g in GROUPS if g == word] or [g for g in GROUPS if word and word in g]
        if not found:
            hint = f"The groups are: {'; '.join(GROUPS)}."
            raise UsageError(f"no group of places is called '{word}'", hint, place="--places")
        chosen.update(found)
    chosen = chosen or set(ORDERS[question])
    return tuple(group for group in GROUPS if group in chosen)
