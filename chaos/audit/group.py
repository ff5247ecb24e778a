"""The groups of places: what they are called on the card, and what a bug there looks like."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from chaos.errors import UsageError

Group: TypeAlias = Literal[
    "before the first commit",
    "mid-epoch",
    "epoch boundary",
    "inside a save",
    "upload begins",
    "upload ends",
    "after report, before commit",
    "just after commit",
    "last epoch",
    "twice in one epoch",
    "three times in a run",
    "same place in two attempts",
    "during the recovery",
    "inside a load",
    "notice before the loss",
    "node lost",
    "fewer workers after it",
]
GROUPS: tuple[Group, ...] = get_args(Group)
# What only a restart can show: whether the job has such places is learnt from struck runs.
LOADS: Group = "inside a load"


def chosen_groups(words: Sequence[str]) -> tuple[Group, ...]:
    """Give the groups that `--places` names, by any part of their names; all where it is empty.

    Raises `UsageError` for a word that names none.
    """
    chosen: set[Group] = set()
    for word in (part.strip().lower() for text in words for part in text.split(";")):
        found = [g for g in GROUPS if g == word] or [g for g in GROUPS if word and word in g]
        if not found:
            hint = f"The groups are: {'; '.join(GROUPS)}."
            raise UsageError(f"no group of places is called '{word}'", hint, place="--places")
        chosen.update(found)
    return tuple(group for group in GROUPS if group in chosen) if chosen else GROUPS
