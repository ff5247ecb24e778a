"""How much is simulated for an answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.preflight.question import Question
from chaos.preflight.simulate import Outcomes, simulate, simulate_each

FEWER = 10  # a proposal is tried with a tenth of the runs
LEAST = 200


@dataclass(frozen=True)
class Effort:
    """How much is simulated: runs of the question itself, the seed, threads."""

    runs: int = 10_000
    seed: int = 0
    jobs: int = 2

    def simulate(self, question: Question) -> Outcomes:
        """Give what becomes of all runs of a question."""
        return simulate(question, runs=self.runs, seed=self.seed, jobs=self.jobs)

    def try_each(self, questions: Sequence[Question]) -> list[Outcomes]:
        """Give what becomes of fewer runs of each question, on the same draws."""
        runs = min(self.runs, max(LEAST, self.runs // FEWER))
        return simulate_each(questions, runs=runs, seed=self.seed, jobs=self.jobs)
