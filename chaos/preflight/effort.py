"""How much is simulated for an answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chaos.preflight.forecast import met_goals
from chaos.preflight.question import Question
from chaos.preflight.simulate import Outcomes, simulate, simulate_each

FEWER = 40  # a proposal is tried with so many times fewer runs
LEAST = 200
ENOUGH = 2_000  # where these decide by far, no more are simulated
_BY_FAR = 4.0  # standard errors


@dataclass(frozen=True)
class Effort:
    """How much is simulated: runs of the question itself at most, the seed, processes."""

    runs: int = 10_000
    seed: int = 0
    jobs: int = 2

    @cached_property
    def _seen(self) -> dict[str, Outcomes]:
        """What was tried, by question."""
        return {}

    def simulate(self, question: Question) -> Outcomes:
        """Give what becomes of runs of a question: so many that more would decide nothing else."""
        runs = min(self.runs, ENOUGH)
        first = simulate(question, runs=runs, seed=self.seed, jobs=self.jobs)
        if runs == self.runs or _is_clear(question, first):
            return first
        return simulate(question, runs=self.runs, seed=self.seed, jobs=self.jobs)

    def try_each(self, questions: Sequence[Question]) -> list[Outcomes]:
        """Give what becomes of fewer runs of each question, on the same draws; none twice."""
        runs = min(self.runs, max(LEAST, self.runs // FEWER))
        keys = [question.model_dump_json() for question in questions]
        new = {key: one for key, one in zip(keys, questions, strict=True) if key not in self._seen}
        found = simulate_each(
            list(new.values()), runs=runs, seed=self.seed, jobs=self.jobs, to_deadline=True
        )
        self._seen.update(zip(new, found, strict=True))
        return [self._seen[key] for key in keys]


def _is_clear(question: Question, outcomes: Outcomes) -> bool:
    """Whether every goal is met by far often enough, or by far not."""
    need = question.goal.confidence
    error = math.sqrt(need * (1 - need) / len(outcomes))
    met = met_goals(question, outcomes).values()
    return all(abs(float(one.mean()) - need) > _BY_FAR * error for one in met)
