"""One thing that is wrong in a scenario file, and all of them as one error."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from chaos.errors import ScenarioError

Loc: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """What is wrong at a line (from 1); `loc` is the value's way from the top."""

    line: int
    text: str
    hint: str = ""
    loc: Loc = ()

    @property
    def said(self) -> str:
        """The problem and what to write instead, without its line."""
        return f"{self.text}. {self.hint}" if self.hint else self.text


def scenario_error(path: Path, problems: Sequence[Problem]) -> ScenarioError:
    """Give the first problem as an error whose message lists the further ones, in line order."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
    errors = [ScenarioError(path, p.line, p.text, p.hint) for p in ordered]
    first = errors[0]
    first.args = ("\n".join(str(error) for error in errors),)
    return first
