"""What can go wrong that is not the tested job's doing, drawn as a tree.

    ChaosError
    ├── UsageError        the caller's: exit code 3
    │   ├── ScenarioError     a scenario file is wrong, at a line
    │   ├── JobError          the job cannot run even without a fault
    │   │   └── UnmetNeedError    its environment lacks what it says it needs
    │   │       └── MissingExtraError   a package that an extra of ours installs
    │   ├── HistoryError      a run directory or one of its files cannot be read
    │   └── ClusterError      the cluster cannot hold the job
    └── HarnessError      ours, or the machine's: exit code 4

What the tested system does wrong is never an exception here: it is an event.
`InjectedError` stands apart: it is harm, raised in the tested job on purpose.
"""

from pathlib import Path


class ChaosError(Exception):
    """Anything chaos raises on purpose; caught in `cli` alone."""


class UsageError(ChaosError):
    """Something the caller can put right; the message says what and how."""

    def __init__(self, problem: str, hint: str = "", *, place: str = "") -> None:
        self.problem = problem
        self.hint = hint
        self.place = place
        head = f"{place}: {problem}" if place else problem
        super().__init__(f"{head}. {hint}" if hint else head)


class ScenarioError(UsageError):
    """A scenario file is wrong at one line."""

    def __init__(self, path: Path | str, line: int, problem: str, hint: str = "") -> None:
        self.path = Path(path)
        self.line = line
        super().__init__(problem, hint, place=f"{path}:{line}")


class JobError(UsageError):
    """The job under test cannot run even without a fault, so nothing can be judged."""


class UnmetNeedError(JobError):
    """The job says what it needs of its environment, and that is not there.

    In a suite the scenario is skipped: nothing is wrong with it or the job.
    """


class MissingExtraError(UnmetNeedError):
    """The job needs a package that an extra of chaos installs, and that is not there."""


class HistoryError(UsageError):
    """A run directory, a plan or a history cannot be read."""


class ClusterError(UsageError):
    """The cluster cannot hold the job, or is not ours to use."""


class HarnessError(ChaosError):
    """chaos itself failed; the run directory holds what was recorded before."""


class InjectedError(RuntimeError):
    """What `raise_in_worker` raises in a train function; no part of chaos may catch it."""
