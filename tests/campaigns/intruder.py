"""Attacks by another local user on runs of the embedded backend.

    python -m tests.campaigns.intruder --tries 20 --seed 1

As root, a process becomes another user and connects to every unix socket that /proc/net/unix
shows for the run's processes, again and again while the run lasts: with pickles that would
make a file, and with garbage. Nothing may be executed, and the run's answer stays the same.
Where this process is not root, it is skipped: it cannot become another user.
"""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns.commands import (
    RIGHT,
    WRONG,
    Harness,
    Place,
    end,
    job,
    look_for_leftovers,
    place,
    scenario,
    start,
)
from tests.campaigns.frame import BLAMED, CLOCK, CODES, GREENER, Asked, Tally, is_root, main, say

EXECUTED, ENDLESS = "payloads executed", "do not end"
NOBODY = 65534
LIMIT_S = 240.0
POLL_S = 0.02
EACH = 10
_LISTENS = 0x10000


@dataclass(frozen=True)
class Target:
    """A command that is attacked, and what it comes to when it is not."""

    name: str
    codes: frozenset[int]
    is_right: bool


TARGETS = (
    Target("run", frozenset({0}), is_right=True),
    Target("run", frozenset({1}), is_right=False),
    Target("audit", frozenset({0, 2}), is_right=True),
)


def campaign(asked: Asked) -> Tally:
    """Attack so many commands, one at a time."""
    tally = Tally("attacks by another user", asked.seed, (EXECUTED, ENDLESS))
    if not is_root():
        tally.skipped = "only root can become another user to attack as"
        return tally
    draw = random.Random(asked.seed)
    for number in range(asked.tries):
        target = draw.choice(TARGETS)
        with place() as here, _marks() as marks:
            _attacked(target, here, marks, tally, f"try {number}, {target.name}")
    return tally


@contextlib.contextmanager
def _marks() -> Iterator[Path]:
    """Yield a folder in which anybody may make files."""
    with tempfile.TemporaryDirectory(prefix="cc-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def _words(target: Target, here: Place) -> Sequence[str | Path]:
    name = RIGHT if target.is_right else WRONG[0]
    if target.name == "run":
        file = scenario(here.folder, name)
        return ["run", file, "--backend", "fork", "--reports", here.reports]
    options = ["--no-confirm", "--max-runs", "6", "--reports", str(here.reports)]
    return ["audit", job(name), *options, "--", "--epochs", "4"]


def _attacked(target: Target, here: Place, marks: Path, tally: Tally, what: str) -> None:
    tally.tries += 1
    harness = start(_words(target, here), here)
    with _attacker(marks) as attacker:
        names = _point_out(harness, here, attacker)
        came = json.loads(attacker.communicate(timeout=LIMIT_S)[0] or "{}")
    code = harness.wait(5)
    tally.figures["sockets to be seen"] += len(names)
    tally.figures["connections"] += came.get("connections", 0)
    tally.figures["refused"] += came.get("PermissionError", 0)
    if made := sorted(p.name for p in marks.iterdir()):
        tally.violated(EXECUTED, f"{what}: {len(made)} files, with {sorted(names)[:4]}")
    if code is None:
        tally.violated(ENDLESS, what)
        end(here.processes())
    elif code not in target.codes:
        story = f"{what}: {code}; {' '.join(here.said().split())[-300:]}"
        tally.violated({0: GREENER, 1: BLAMED}.get(code, CODES), story)
    look_for_leftovers(here, tally, what)
    say(f"{what}: {code}, {len(names)} sockets, {came}")


@contextlib.contextmanager
def _attacker(marks: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that becomes another user, once it has imported what it needs."""
    program = Path(__file__).with_name("attacker.py").read_text(encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-I", "-c", program, str(marks), str(NOBODY)],
        cwd="/",
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as attacker:
        yield attacker


def _point_out(harness: Harness, here: Place, attacker: subprocess.Popen[str]) -> set[str]:
    """Tell the attacker the sockets of the run while it lasts; returns their names.

    Others' sockets are left alone, though the attacker can see them as well: on this
    machine there may be other runs.
    """
    assert attacker.stdin is not None
    told: dict[str, int] = {}
    while harness.process.poll() is None and harness.age_s < LIMIT_S:
        for name in _listening(here):
            told[name] = told.get(name, 0) + 1
            if told[name] <= EACH:
                attacker.stdin.write(f"{name}\n")
                attacker.stdin.flush()
        CLOCK.sleep(POLL_S)
    return set(told)


def _listening(here: Place) -> Iterator[str]:
    """Return the names of unix sockets at which the run's processes listen."""
    rows = [line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    named = {row[6]: row[7] for row in rows if len(row) > 7 and int(row[3], 16) & _LISTENS}
    ours = {inode for process in here.processes() for inode in _inodes(process.pid)}
    return (name for inode, name in named.items() if inode in ours)


def _inodes(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                kind, _, inode = str(link.readlink()).partition(":")
                if kind == "socket":
                    yield inode.strip("[]")


if __name__ == "__main__":
    main(campaign, tries=20)
