"""The place of a job's files: on a node's own disk, or on one that all nodes share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from typing import Self

from chaos.model.paths import is_below, is_of_a_node
from chaos.model.plan import Plan
from chaos.model.scenario import Tier

HOSTS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - nothing is made there


@dataclass(frozen=True)
class Tiers:
    """The tiers of a job's files: those that are named, and by itself what every host has.

    A host's temporary folders are its own, but for the folders of the job's code and of chaos's
    reports in them, which every node has.
    """

    named: Mapping[str, Tier]
    #: folders that every node has
    shared: tuple[str, ...]

    @classmethod
    def of(cls, plan: Plan, *shared: str, real: Callable[[str], str] = normpath) -> Self:
        """Return the tiers of a plan's job, with more folders that are shared.

        `real` is how a folder is written in the paths that are asked for.
        """
        script = () if plan.job.script is None else (dirname(plan.job.script),)
        reports = () if plan.confined is None else (plan.confined.folder,)
        every = {real(folder) for folder in (plan.cwd, *script, *reports, *shared)} - {*HOSTS}
        # The folder of a command is where production has it, too: on a disk that stays.
        every |= {real(plan.cwd)} if plan.job.facts.restarts_elsewhere else set()
        named = {real(join(plan.cwd, path)): tier for path, tier in plan.storage.items()}
        return cls(named, tuple(sorted(every)))

    def of_file(self, path: str) -> Tier:
        """Return the tier of an absolute path."""
        if (folder := self.naming(path)) is not None:
            return self.named[folder]
        if is_of_a_node(path):
            return "node"
        if any(is_below(path, folder) for folder in self.shared):
            return "shared"
        return "node" if any(is_below(path, folder) for folder in HOSTS) else "shared"

    def naming(self, path: str) -> str | None:
        """Return the innermost named folder, or file, that holds a path."""
        holding = (named for named in self.named if is_below(path, named))
        return max(holding, key=len, default=None)
