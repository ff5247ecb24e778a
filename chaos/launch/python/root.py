"""The process that commands are forked from: torch imported, and no script run.

`python -u root.py SOCKET_FD` (see `commands.root`). What multiprocessing spawns is forked as well,
from a template; all else that the script starts are new interpreters, or its own forks.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    sys.path.pop(0)  # this file's folder: modules of the script's may have the names of these here

from chaos.launch.commands.root import serve_starts, warm_up
from chaos.probe.address import RunAddress
from chaos.run.directory import RunDirectory


def main(fd: int) -> None:
    """Fork commands until the harness is gone; return only in one, or in a child of one."""
    harness, token = warm_up(fd, "chaos.launch.python.command", "chaos.launch.python.template")
    from chaos.launch.python import command, template
    from chaos.launch.python.process import watch_child

    start = serve_starts(harness, token)
    child = None
    if RunDirectory(RunAddress.from_env().directory).load_plan().job.workers > 1:
        child = template.fork_template()
    if child is None:
        command.main(start.words)
        return
    watch_child()
    exec(child.program, {"__name__": "__main__"})  # noqa: S102 - multiprocessing's own


if __name__ == "__main__":
    main(int(sys.argv[1]))
