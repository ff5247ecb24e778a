"""The threads of each process in an audit: the cores over the runs that go side by side.

A library for numbers starts as many threads as the machine has cores, and each of them waits for
the others by spinning. Several runs at a time then hold each other up many times over. Ray and
torchrun set `OMP_NUM_THREADS` for their workers themselves; nothing does it for other commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from chaos.model.plan import Plan
from chaos.wording import plural

# OpenMP reads it, and so do MKL, OpenBLAS and torch where their own variables are unset.
THREADS_ENV = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class ThreadLimit:
    """The number of threads of each process, the same in all runs of an audit.

    Results depend on it: a sum over another number of threads is rounded in another way.
    """

    #: as the variable has it
    count: str
    cores: int
    #: the user set the variable
    is_user_set: bool

    @classmethod
    def choose(cls, plan: Plan, env: Mapping[str, str], *, cores: int, lanes: int) -> Self | None:
        """Return the threads of a job's processes; None where its launcher sets their number.

        Also None where one run at a time may have all cores, as it has in production.
        """
        job = plan.job
        if not _leaves_threads(plan):
            return None
        user_value = {**env, **job.env}.get(THREADS_ENV)
        if user_value is not None:
            return cls(user_value, cores, is_user_set=True)
        count = max(1, cores // (lanes * job.workers))
        return None if count >= cores else cls(str(count), cores, is_user_set=False)

    def apply_threads(self, plan: Plan) -> Plan:
        """Return the plan with this number, which the scenario of a finding then has as well."""
        job = plan.job.replace(env={**plan.job.env, THREADS_ENV: self.count})
        return plan.replace(job=job)

    def describe(self, *, lanes: int, workers: int) -> str:
        """Return in words how many threads each process has, and why."""
        if self.is_user_set:
            return f"{THREADS_ENV} is {self.count} in every run, as you set it"
        runs = plural(lanes, "lane") + (f" of {workers} ranks" if workers > 1 else "")
        count = plural(int(self.count), "thread")
        return (
            f"{count} each: {plural(self.cores, 'core')} over {runs}; set {THREADS_ENV} to choose"
        )


def _leaves_threads(plan: Plan) -> bool:
    """Return whether the job's launcher leaves the number of threads alone."""
    leaves = plan.job.launcher_facts.script.leaves_threads
    return leaves == "yes" or (leaves == "of one rank" and plan.job.workers == 1)
