"""The command's own process: the job's script as `__main__`, which may start others.

`python -u command.py train.py …` in place of `python -u train.py …`, and likewise
`python -u command.py -m package.module …`.
"""

import os
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder: modules of the script's may have the names of these here

from chaos.launch.commands.worker import run_notifying_script
from chaos.launch.environment import build_journal_name
from chaos.launch.python.process import watch_command
from chaos.launch.torchrun_requests import find_missing_variable
from chaos.model.event import CommandEnded
from chaos.probe.address import RunAddress
from chaos.processes.child import die_with_parent
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.signals import DRIVER_STACKS, answer_with_stacks

MESSAGE_MAX = 4000


def main(words: Sequence[str]) -> None:
    """Run the script of these words, and record how it ended."""
    die_with_parent(os.getppid())
    directory = RunDirectory(RunAddress.from_env().directory)
    journal = Journal(
        directory.journals, build_journal_name("command"), role="driver", clock=SystemClock()
    )
    answer_with_stacks(directory.logs / DRIVER_STACKS)
    pid = os.getpid()
    process = watch_command()

    def record_end(error: BaseException | None) -> None:
        if os.getpid() != pid:  # a fork that has not ended where it was made
            return
        if process is not None:
            process.record_end(error)
        name = None if error is None else type(error).__name__
        message = str(error or "")[-MESSAGE_MAX:]
        journal.add(CommandEnded(error=name, message=message, asked=find_missing_variable(error)))

    run_notifying_script(words, record_end)


if __name__ == "__main__":
    main(sys.argv[1:])
