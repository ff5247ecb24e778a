"""The strikes of an audit in their order, and those that only a struck run shows to be there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from chaos.audit.extent import Extent
from chaos.audit.places import interleaved
from chaos.audit.strike import Strike
from chaos.audit.struck import StruckRun


@dataclass
class Queue:
    """Hands out strikes, one of each group in turn.

    A clean run shows no restart, so which ranks load a file there is learnt
    from the first struck run in which any does; the map is then made anew
    by `map_of`, which leaves all that it had.
    """

    extent: Extent
    map_of: Callable[[Extent], Sequence[Strike]]
    strikes: Sequence[Strike] = ()
    taken: int = 0
    _waiting: list[Strike] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.strikes = self.map_of(self.extent)
        self._waiting = list(interleaved(self.strikes))

    @property
    def is_empty(self) -> bool:
        """Whether every strike that is known was taken."""
        return not self._waiting

    def take(self) -> tuple[int, Strike]:
        """Give the next strike and its number, from 0."""
        number, self.taken = self.taken, self.taken + 1
        return number, self._waiting.pop(0)

    def learn(self, run: StruckRun) -> None:
        """Put in what a struck run shows to be there, where it belongs in the order."""
        if self.extent.loads or not run.loads:
            return
        known = set(self.strikes)
        taken = known - set(self._waiting)
        self.extent = replace(self.extent, loads=run.loads)
        self.strikes = self.map_of(self.extent)
        assert known <= set(self.strikes)
        self._waiting = [s for s in interleaved(self.strikes) if s not in taken]
