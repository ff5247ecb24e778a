"""The sentence of each kind of finding, with its usual cause and its remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc
from typing import TypeVar

from chaos.check.kinds.base import Facts
from chaos.model.launcher_facts import LauncherWords

F = TypeVar("F", bound=Facts)
Describe = Callable[[F, LauncherWords], str]


@dataclass(frozen=True)
class KindEntry:
    """The description of a kind of finding for users."""

    kind: str
    check: str
    #: what such a finding says
    meaning: str
    usual_cause: str
    #: what to do about it
    remedy: str


_DESCRIBERS: dict[type[Facts], Describe[Facts]] = {}
_ENTRIES: dict[str, KindEntry] = {}


def describes(
    facts_type: type[F], *, usual_cause: str, remedy: str
) -> Callable[[Describe[F]], Describe[F]]:
    """Return a decorator for the function that describes the findings of a kind in a sentence."""

    def register(describe: Describe[F]) -> Describe[F]:
        kind = facts_type.kind
        if kind in _ENTRIES:
            raise ValueError(f"{kind} is described already")
        meaning = cleandoc(facts_type.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        _DESCRIBERS[facts_type] = describe  # type: ignore[assignment]
        _ENTRIES[kind] = KindEntry(kind, facts_type.check, meaning, usual_cause, remedy)
        return describe

    return register


def describe_finding(facts: Facts, terms: LauncherWords) -> str:
    """Return the sentence of a finding, in the words of the run's launcher."""
    return _DESCRIBERS[type(facts)](facts, terms)


def find_entry(kind: str) -> KindEntry | None:
    """Return the description of a kind; None if there is no such kind."""
    return _ENTRIES.get(kind)


def list_entries() -> tuple[KindEntry, ...]:
    """Return the descriptions of all kinds, by name."""
    return tuple(entry for _, entry in sorted(_ENTRIES.items()))
