"""A pure model of a job that Ray Train restarts: right by default, guilty where it is told to be.

`Story(...)` is one line of a test; `.history()` and `.plan()` are what chaos would have of it.
"""

from dataclasses import replace
from typing import Any

from chaos.model.history import History
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import Expect, FailureBudget, Job, Limits
from tests.check.script import Script, Strike, loss
from tests.check.teller import Teller

__all__ = ["Story", "Strike", "loss"]


class Story(Script):
    """A script that is told."""

    def history(self) -> History:
        return Teller(self).tell()

    def baseline(self) -> History:
        quiet = replace(self, strikes=(), surplus=0, extra=0)
        return Teller(quiet, now_ns=7_700_000_000).tell()

    def plan(self, **expect: Any) -> Plan:
        metric = expect.pop("epoch_metric", None)
        return Plan(
            scenario="a test",
            slug="a-test",
            file="/a/test.chaos.yaml",
            seed=1,
            cwd="/a",
            job=Job(
                script="job.py",
                workers=self.ranks,
                min_workers=self.least,
                failure=FailureBudget(
                    max_failures=self.budget, max_preemption_failures=self.budget
                ),
                epoch_metric=metric,
                trial=0 if self.others else None,
            ),
            shape=Shape(nodes=self.ranks + 1, cpus_per_node=1),
            ops=tuple(strike.op(index) for index, strike in enumerate(self.strikes)),
            expect=Expect(**expect),
            limits=Limits(),
        )
