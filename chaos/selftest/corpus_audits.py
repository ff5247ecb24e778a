"""Audits every job of a corpus, one after the other, each below one folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from chaos.audit.audit import Audit, Choice
from chaos.audit.budget import Budget
from chaos.audit.folder import AuditFolder
from chaos.audit.lanes import lanes_for
from chaos.audit.plans import base_plan
from chaos.backends.open import open_scripts
from chaos.errors import ChaosError
from chaos.model.plan import Confined
from chaos.run.clock import Clock
from chaos.run.cpus import usable_cpus
from chaos.selftest.corpus import Answer, CorpusJob, answer_of


@dataclass(frozen=True)
class CorpusAudits:
    """How each job of the corpus in `folder` is audited, as a user would."""

    folder: Path
    reports: Path
    env: dict[str, Any]
    console: Console
    clock: Clock
    seed: int = 0
    runs: int | None = None
    seconds: float | None = 60.0
    lanes: int | None = None

    def answers(self, jobs: Sequence[CorpusJob]) -> Iterator[Answer]:
        """Return one answer per job, as they come."""
        yield from (self._answer(job) for job in jobs)

    def _answer(self, job: CorpusJob) -> Answer:
        script = job.script(self.folder)
        plan = base_plan(script, job.args, cwd=script.parent, seed=self.seed)
        folder = AuditFolder.create(self.reports, job.name, plan, self.env)
        confined = Confined(folder=str(folder.path))
        plan = plan.model_copy(update={"backend": "fork", "confined": confined})
        try:
            with open_scripts(self.console) as backend:
                card = Audit(
                    plan,
                    backend,
                    folder,
                    self.clock,
                    Choice(self.seed),
                    Budget(self.seconds, self.runs),
                    lanes=self._lanes,
                ).run()
        except ChaosError as error:
            return Answer(job=job.name, verdict="refused", sentence=str(error))
        except Exception as error:  # noqa: BLE001 - an answer like any other; the rest is audited
            failed = f"chaos itself failed: {type(error).__name__}: {error}"
            return Answer(job=job.name, verdict="refused", sentence=failed)
        return answer_of(job, card)

    def _lanes(self, workers: int) -> int:
        return self.lanes or lanes_for(usable_cpus(), workers=workers)
