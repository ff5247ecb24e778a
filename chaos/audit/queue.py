"""The strikes of an audit in their order, and those that only a struck run shows to be there."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from chaos.audit.extent import Extent
from chaos.audit.group import Group, Question
from chaos.audit.order import in_order, part_of, resumes_from
from chaos.audit.strike import Strike
from chaos.audit.struck import StruckRun

# How often a group is tried until a restart in it went on from a checkpoint.
TRIES = 3


@dataclass
class Queue:
    """Hands out strikes: those first that an answer needs, then one of each group in turn.

    A clean run shows no restart, so which ranks load a file there is learnt
    from the first struck run in which any does; the map is then made anew
    by `map_of`, which leaves all that it had. Where a group should have had a
    restart that went on from a checkpoint, and had none, more of it is needed.
    """

    extent: Extent
    map_of: Callable[[Extent], Sequence[Strike]]
    question: Question = "spot"
    seed: int = 0
    strikes: Sequence[Strike] = ()
    taken: int = 0
    _needed: list[Strike] = field(default_factory=list)
    _rest: list[Strike] = field(default_factory=list)
    _begun: Counter[Group] = field(default_factory=Counter)
    _over: Counter[Group] = field(default_factory=Counter)
    _resumed: set[Group] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.strikes = self.map_of(self.extent)
        self._arrange(taken=set())

    @property
    def is_empty(self) -> bool:
        """Whether every strike that is known was taken."""
        return not self._needed and not self._rest

    @property
    def needed(self) -> int:
        """How many strikes an answer still needs."""
        return len(self._needed)

    def take(self) -> tuple[int, Strike]:
        """Give the next strike and its number, from 0."""
        number, self.taken = self.taken, self.taken + 1
        strike = (self._needed or self._rest).pop(0)
        self._begun[strike.group] += 1
        return number, strike

    def learn(self, run: StruckRun) -> None:
        """Put in what a struck run shows to be there, where it belongs in the order."""
        self._over[run.group] += 1
        if run.is_right and run.resumed:
            self._resumed.add(run.group)
        if run.loads and not self.extent.loads:
            known = set(self.strikes)
            taken = known - {*self._needed, *self._rest}
            self.extent = replace(self.extent, loads=run.loads)
            self.strikes = self.map_of(self.extent)
            assert known <= set(self.strikes)
            self._arrange(taken=taken)
        self._try_again(run)

    def _arrange(self, *, taken: set[Strike]) -> None:
        order = in_order(self.strikes, self.extent, question=self.question, seed=self.seed)
        self._needed = [strike for strike in order.needed if strike not in taken]
        self._rest = [strike for strike in order.rest if strike not in taken]

    def _try_again(self, run: StruckRun) -> None:
        """Have another of a group struck that should have shown a resume, and did not."""
        group = run.group
        is_settled = group in self._resumed or run.validity == "invalid"
        if is_settled or self._begun[group] > self._over[group] or self._over[group] >= TRIES:
            return
        if resumes_from(run.strike, self.extent) is None:
            return
        mine = (s for s in self._rest if s.group == group and part_of(s, self.extent) is not None)
        more = next(mine, None)
        if more is not None:
            self._rest.remove(more)
            self._needed.append(more)
