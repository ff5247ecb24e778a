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

from chaos.probe.imported import once_imported
from chaos.probe.written import Confines, WriteLedger, record

ChildStart: TypeAlias = Literal["subprocess", "multiprocessing", "fork"]
CHILD_ENV = "CHAOS_CHILD"  # the list of writes of the process that starts this one, as JSON
# The first words after `-c` of an interpreter that multiprocessing starts (Python 3.11 to 3.14).
_OF_MULTIPROCESSING = ("from multiprocessing.spawn", "from multiprocessing.forkserver")
WORDS_MAX = 200


def watch_children(ledger: WriteLedger) -> None:
    """Let each Python that this process starts from now on write to its list."""
    from chaos.launch.watched_children import with_watched_children

    confines = ledger.confines
    fields: dict[str, Any] = {"file": str(ledger.file), "left_out": [*map(str, ledger.left_out)]}
    if confines is not None:
        fields["confines"] = {
            "folder": str(confines.folder),
            "allowed": [*map(str, confines.allowed)],
            "objects": confines.objects,
            "stays_here": confines.stays_here,
        }
    os.environ.update(with_watched_children({**os.environ, CHILD_ENV: json.dumps(fields)}))


def watch_child() -> None:
    """Watch a process that a rank has started, as its interpreter starts."""
    try:
        fields = json.loads(os.environ[CHILD_ENV])
        file, confines = Path(fields["file"]), fields.get("confines")
        if not file.exists():  # the run is over
            return
        if confines is not None:
            confines = Confines(
                Path(confines["folder"]),
                tuple(map(Path, confines["allowed"])),
                tuple(confines["objects"]),
                stays_here=confines["stays_here"],
            )
        left_out = [Path(path) for path in fields["left_out"]]
        record(WriteLedger(file, left_out, confines, is_child=True))
        record_training(file.parents[2] / "journals", is_rank=lambda: False)
    except Exception as error:  # noqa: BLE001 - the run goes on
        os.write(2, f"chaos: a child is not watched: {error}\n".encode())


def record_training(journals: Path, *, is_rank: Callable[[], bool]) -> None:
    """Record once that an optimizer steps in this process, or in a fork of it, that is no rank."""
    once_imported(
        {"torch.optim.optimizer"}, lambda module: _follow_steps(module, journals, is_rank)
    )


def _follow_steps(module: Any, journals: Path, is_rank: Callable[[], bool]) -> None:
    this, recorded = os.getpid(), set[int]()

    def step_ended(*_: object) -> None:
        pid = os.getpid()
        if pid in recorded or is_rank():
            return
        recorded.add(pid)
        with suppress(Exception):  # recorded beside the job; must not fail its step
            _record_training(journals, "fork" if pid != this else _interpreter_start())

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
    words = sys.orig_argv
    is_spawned = any(word.startswith(_OF_MULTIPROCESSING) for word in words)
    return "multiprocessing" if is_spawned else "subprocess"


def _command() -> str:
    return " ".join(Path(word).name if "/" in word else word for word in sys.orig_argv)[:WORDS_MAX]
