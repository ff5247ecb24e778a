"""The place of a job's files: on a node's own disk, or on one that all nodes share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from typing import Self

from chaos.model.paths import is_in_folder, is_node_path
from chaos.model.plan import Plan
from chaos.model.scenario import Tier

HOSTS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - nothing is made there


@dataclass(frozen=True)
class Tiers:
    """The tiers of a job's files: those that are named, and by itself what every host has.

    A host's temporary folders are its own, but for the folders of the job's code and of chaos's
    reports in them, which every node has.
    """

    tier_by_folder: Mapping[str, Tier]
    #: folders that every node has
    shared_folders: tuple[str, ...]

    @classmethod
    def from_plan(
        cls, plan: Plan, *more_folders: str, normalize: Callable[[str], str] = normpath
    ) -> Self:
        """Return the tiers of a plan's job, with more folders that are shared.

        `normalize` tells how a folder is written in the paths that are asked for.
        """
        script = () if plan.job.script is None else (dirname(plan.job.script),)
        reports = () if plan.confined is None else (plan.confined.folder,)
        all_shared = {
            normalize(folder) for folder in (plan.cwd, *script, *reports, *more_folders)
        } - {*HOSTS}
        # The folder of a command is where production has it, too: on a disk that stays.
        all_shared |= (
            {normalize(plan.cwd)} if plan.job.launcher_facts.nodes.restarts_elsewhere else set()
        )
        tier_by_folder = {
            normalize(join(plan.cwd, path)): tier for path, tier in plan.storage.items()
        }
        return cls(tier_by_folder, tuple(sorted(all_shared)))

    def find_tier(self, path: str) -> Tier:
        """Return the tier of an absolute path."""
        if (folder := self.find_named_folder(path)) is not None:
            return self.tier_by_folder[folder]
        if is_node_path(path):
            return "node"
        if any(is_in_folder(path, folder) for folder in self.shared_folders):
            return "shared"
        return "node" if any(is_in_folder(path, folder) for folder in HOSTS) else "shared"

    def find_named_folder(self, path: str) -> str | None:
        """Return the innermost named folder, or file, that holds a path."""
        matching_folders = (folder for folder in self.tier_by_folder if is_in_folder(path, folder))
        return max(matching_folders, key=len, default=None)
