"""A Python that a rank has started: what it writes is the run's, and that it trains is recorded.

It is no rank. A rank lets its children be watched (`watch_children`): by its environment each finds
`sitecustomize`, and the list of writes that the rank itself uses. So whatever the start of a child
(multiprocessing's spawn and forkserver, `subprocess`), its files are known, and are removed with
the run's. A forked child goes on with the rank's list by itself.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from chaos.probe.import_hooks import call_after_import
from chaos.probe.write_ledger import WriteLedger, WriteLimits, start_ledger

ChildStart: TypeAlias = Literal["subprocess", "multiprocessing", "fork"]
CHILD_ENV = "CHAOS_CHILD"  # the list of writes of the process that starts this one, as JSON
# The first words after `-c` of an interpreter that multiprocessing starts (Python 3.11 to 3.14).
_MULTIPROCESSING_IMPORTS = ("from multiprocessing.spawn", "from multiprocessing.forkserver")
COMMAND_MAX = 200


def watch_children(ledger: WriteLedger) -> None:
    """Let each Python that this process starts from now on write to its list."""
    from chaos.launch.child_environment import add_child_watch

    confines = ledger.confines
    fields: dict[str, Any] = {
        "file": str(ledger.file),
        "left_out": [*map(str, ledger.ignored_folders)],
    }
    if confines is not None:
        fields["confines"] = {
            "folder": str(confines.folder),
            "allowed": [*map(str, confines.allowed)],
            "objects": confines.objects,
            "stays_here": confines.is_local_only,
        }
    os.environ.update(add_child_watch({**os.environ, CHILD_ENV: json.dumps(fields)}))


def watch_child() -> None:
    """Watch a process that a rank has started, as its interpreter starts."""
    try:
        fields = json.loads(os.environ[CHILD_ENV])
        file, confines = Path(fields["file"]), fields.get("confines")
        if not file.exists():  # the run is over
            return
        if confines is not None:
            confines = WriteLimits(
                Path(confines["folder"]),
                tuple(map(Path, confines["allowed"])),
                tuple(confines["objects"]),
                is_local_only=confines["stays_here"],
            )
        left_out = [Path(path) for path in fields["left_out"]]
        start_ledger(WriteLedger(file, left_out, confines, is_child=True))
        record_training(file.parents[2] / "journals", is_rank=lambda: False)
    except Exception as error:  # noqa: BLE001 - the run goes on
        os.write(2, f"chaos: a child is not watched: {error}\n".encode())


def record_training(journals: Path, *, is_rank: Callable[[], bool]) -> None:
    """Record once that an optimizer steps in this process, or in a fork of it, that is no rank."""
    call_after_import(
        {"torch.optim.optimizer"}, lambda module: _follow_steps(module, journals, is_rank)
    )


def _follow_steps(module: Any, journals: Path, is_rank: Callable[[], bool]) -> None:
    setup_pid, recorded = os.getpid(), set[int]()

    def step_ended(*_: object) -> None:
        pid = os.getpid()
        if pid in recorded or is_rank():
            return
        recorded.add(pid)
        with suppress(Exception):  # recorded beside the job; must not fail its step
            _record_training(journals, "fork" if pid != setup_pid else _interpreter_start())

    module.register_optimizer_step_post_hook(step_ended)


def _record_training(journals: Path, start: ChildStart) -> None:
    from chaos.model.event import ChildTrained
    from chaos.run.clock import SystemClock
    from chaos.run.journal import Journal

    name = f"child-{os.getpid()}"
    journal = Journal(journals, name, role="worker", clock=SystemClock())
    journal.add(ChildTrained(pid=os.getpid(), command=_command(), start=start))
    journal.close()


def _interpreter_start() -> ChildStart:
    arguments = sys.orig_argv
    is_spawned = any(argument.startswith(_MULTIPROCESSING_IMPORTS) for argument in arguments)
    return "multiprocessing" if is_spawned else "subprocess"


def _command() -> str:
    return " ".join(
        Path(argument).name if "/" in argument else argument for argument in sys.orig_argv
    )[:COMMAND_MAX]
