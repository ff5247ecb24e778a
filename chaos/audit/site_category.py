"""The groups of places: their names on the card, and their order for a question."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from chaos.errors import RequestError
from chaos.model.launcher_policy import LauncherPolicy

SiteCategory: TypeAlias = Literal[
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
SITE_CATEGORIES: tuple[SiteCategory, ...] = get_args(SiteCategory)
# Only a restart shows whether the job has such places, so runs with a fault must find them.
INSIDE_LOAD: SiteCategory = "inside a load"
INSIDE_SAVE: SiteCategory = "inside a save"
PUT_ANSWER_LOST: SiteCategory = "answer of a put lost"
SEVERAL_FAULTS: SiteCategory = "several times in a run"
PREEMPTED_AT_ONCE: SiteCategory = "preempted at once"
NODE_LOST: SiteCategory = "node lost"
# Each of their places takes several retries.
SEVERAL_RETRIES_CATEGORIES: tuple[SiteCategory, ...] = (
    "twice in one epoch",
    SEVERAL_FAULTS,
    "same place in two attempts",
    "during the recovery",
    INSIDE_LOAD,
)

FaultKind: TypeAlias = Literal[
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
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
_KIND_BY_CATEGORY: Mapping[SiteCategory, FaultKind] = {
    PREEMPTED_AT_ONCE: "preempted at once",
    "notice before the loss": "preempted with notice",
    "node lost": "node lost",
    "fewer workers after it": "node lost",
    "during the recovery": "killed in a recovery",
    INSIDE_LOAD: "killed inside a load",
    "loader process lost": "loader process killed",
    "save fails beside training": "save failed",
    "answer of a put lost": "save failed",
    "inside a save": "killed in a save or upload",
    "upload begins": "killed in a save or upload",
    "upload ends": "killed in a save or upload",
}
# One group, which is named after what a launcher's restart continues from.
_INITIAL_GROUPS: tuple[SiteCategory, SiteCategory] = (
    "before the first commit",
    "before the first save",
)

# The question of the user: does the job tolerate spot instances, or crashes of workers?
Question: TypeAlias = Literal["spot", "crash"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
_WORKER_CATEGORIES: tuple[SiteCategory, ...] = (
    "after report, before commit",
    "mid-epoch",
    "last epoch",
    "during the recovery",
    INSIDE_LOAD,
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
_NODE_CATEGORIES: tuple[SiteCategory, ...] = (
    NODE_LOST,
    "notice before the loss",
    "fewer workers after it",
)
_QUEUE_CATEGORIES: tuple[SiteCategory, ...] = (PREEMPTED_AT_ONCE,)
# The groups of each question, those first that are most likely to show a defect: of the wrong jobs
# of the corpus the first two of "spot" show 22 of 25 (`python -m tests.bench.telling`, note 29).
CATEGORY_ORDERS: Mapping[Question, tuple[SiteCategory, ...]] = {
    "spot": (_WORKER_CATEGORIES[0], *_QUEUE_CATEGORIES, *_NODE_CATEGORIES, *_WORKER_CATEGORIES[1:]),
    "crash": _WORKER_CATEGORIES,
}


def find_initial_category(facts: LauncherPolicy) -> SiteCategory:
    """Return the group of the places before there is anything to continue from."""
    return next(group for group in _INITIAL_GROUPS if group == facts.sites.initial)


def list_site_categories(facts: LauncherPolicy) -> tuple[SiteCategory, ...]:
    """Return the groups of a launcher's jobs, and those that are left out by name."""
    excluded_groups = {*_INITIAL_GROUPS} - {find_initial_category(facts)} | {
        group for group in _QUEUE_CATEGORIES if group in facts.sites.unavailable
    }
    return tuple(group for group in SITE_CATEGORIES if group not in excluded_groups)


def is_available(group: SiteCategory, facts: LauncherPolicy) -> bool:
    """Return whether a launcher's jobs may have such places, and should outlive a fault there."""
    return group not in facts.sites.unavailable and group not in facts.sites.unrestarted


def needs_nodes(group: SiteCategory) -> bool:
    """Return whether such places take a node, of which there may be one alone."""
    return group in _NODE_CATEGORIES


def find_kind(group: SiteCategory, facts: LauncherPolicy) -> FaultKind:
    """Return the kind of fault that a group of a launcher's jobs is counted under."""
    kind = _KIND_BY_CATEGORY.get(group, "worker killed")
    name = facts.sites.kinds.get(kind, kind)
    return next(kind for kind in FAULT_KINDS if kind == name)


def list_kinds(facts: LauncherPolicy) -> tuple[FaultKind, ...]:
    """Return the kinds of the groups of a launcher's jobs."""
    kinds = {
        find_kind(group, facts)
        for group in list_site_categories(facts)
        if is_available(group, facts)
    }
    return tuple(kind for kind in FAULT_KINDS if kind in kinds)


def select_site_categories(
    words: Sequence[str], question: Question = "spot"
) -> tuple[SiteCategory, ...]:
    """Return the groups that `--places` names, by any part of their names.

    If it is empty, those of the question. Raises `RequestError` for a word that
    names no group.
    """
    selected_groups: set[SiteCategory] = set()
    for word in (part.strip().lower() for text in words for part in text.split(";")):
        matching_groups = [g for g in SITE_CATEGORIES if g == word] or [
            g for g in SITE_CATEGORIES if word and word in g
        ]
        if not matching_groups:
            hint = f"The groups are: {'; '.join(SITE_CATEGORIES)}."
            raise RequestError(
                "no group of places is called '{word}'", hint, field="places", word=word
            )
        selected_groups.update(matching_groups)
    selected_groups = selected_groups or set(CATEGORY_ORDERS[question])
    return tuple(group for group in SITE_CATEGORIES if group in selected_groups)
