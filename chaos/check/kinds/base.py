"""The base of the facts of a finding."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Facts:
    """The facts of one finding: numbers, ranks, files, places and names, each typed.

    The first paragraph of a subclass's docstring says what the kind means, and is shown to users.
    What it looks like as a sentence, its usual cause and its remedy stand in `check/prose`.
    """

    #: its name for users, such as `older-save`
    kind: ClassVar[str]
    #: the check that finds it
    check: ClassVar[str]
