"""Faults on the machine of a command: one at a time, and another after it was lost."""

from collections.abc import Callable

from chaos.launch.commands.world import MachineWorld
from chaos.launch.node_disk import NodeDisk
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import Clock


class CommandWorld(MachineWorld):
    """The machines and workers of one run, with the command as the first process of a machine."""

    def __init__(
        self, clock: Clock, armed: ArmedFaults, build_disk: Callable[[str], NodeDisk]
    ) -> None:
        super().__init__(clock, 1, armed, build_disk)
        self._commands: dict[str, int] = {}
        self._faulted: set[str] = set()

    def record_command(self, node_id: str, pid: int) -> None:
        """Note the command of a machine."""
        self._commands[node_id] = pid

    def find_first_pid(self, node_id: str) -> int:
        return self._commands[node_id]

    def mark_faulted(self, node_id: str) -> None:
        self._faulted.add(node_id)

    def workers_outlive_driver(self) -> bool:
        return True

    def is_faulted(self, node_id: str) -> bool:
        """Return whether a fault has taken a machine, or announced that."""
        return node_id in self._faulted
