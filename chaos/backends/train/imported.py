"""Classes of libraries that a worker has imported, each watched once."""

import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_WATCHED = "_chaos_watches"


def unwatched(libraries: Sequence[str], name: str) -> Iterator[Any]:
    """Yield each library's class of this name (dotted, below the library), and mark it as watched.

    Only libraries that are imported already: chaos imports none of them. May be
    called again, for those imported since; no class is yielded twice.
    """
    for library in libraries:
        try:
            cls = operator.attrgetter(name)(sys.modules.get(library))
        except AttributeError:  # not imported, or not yet as a whole
            continue
        if _WATCHED not in vars(cls):
            setattr(cls, _WATCHED, True)
            yield cls
