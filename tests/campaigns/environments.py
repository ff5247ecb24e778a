"""Environments in which `chaos` must do its work, or say why it cannot.

    python -m tests.campaigns.environments [--tries 20 --seed 1]

Disks that are full or read-only, homes and temporary folders that are not there, encodings,
odd paths, limits on resources, another user, and a stdout that takes nothing. Fewer tries
than there are environments: a sample of them is drawn.
"""

import os
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.campaigns.commands import (
    GONE_S,
    RIGHT,
    WRONG,
    Place,
    end,
    job,
    look_for_leftovers,
    place,
    run_to_its_end,
    scenario,
    start,
    with_env,
)
from tests.campaigns.frame import (
    BLAMED,
    CODES,
    FILES,
    GREENER,
    Asked,
    Tally,
    is_root,
    main,
    say,
)

NOT_THERE, ENDLESS = "paths told that are not there", "do not end"
LIMIT_S = 180.0
NOBODY = 65534
# The interpreter may lie where another user cannot read: reading is the one right that it keeps.
ANOTHER = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)  # fmt: skip
Stdout: TypeAlias = Literal["file", "closed", "/dev/full", "a broken pipe", "head -1"]
Command: TypeAlias = Literal["run", "wrong", "audit", "check", "report"]
# What a right and a wrong job come to where nothing hinders; an audit as short as these decides
# nothing where it finds nothing.
TRUTH: Mapping[Command, frozenset[int]] = {
    "run": frozenset({0}),
    "wrong": frozenset({1}),
    "audit": frozenset({0, 2}),
    "check": frozenset({0}),
    "report": frozenset({0}),
}
HINDERED = frozenset({3, 4})


@dataclass(frozen=True)
class Environment:
    """What is other than usual; `besides` are exit codes that are right here beside the truth's."""

    name: str
    command: Command = "run"
    besides: frozenset[int] = frozenset()
    env: Mapping[str, str | None] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    folder: str = ""
    reports: str = "rep"
    stdout: Stdout = "file"
    is_anothers: bool = False
    needs_root: bool = False


def _shell(words: str) -> tuple[str, ...]:
    return ("sh", "-c", f'{words}; exec "$@"', "sh")


def _mounted(options: str) -> tuple[str, ...]:
    mount = f"mkdir -p rep && mount -t tmpfs -o {options} none rep"
    return ("unshare", "--mount", *_shell(mount))


PLAIN_C: Mapping[str, str | None] = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
}
ODD = "sp ace 'q\" 漢字 😀 $HOME; [b]"
_BARE = (
    Environment("read-only reports", "run", HINDERED, before=_mounted("ro"), needs_root=True),
    *(
        Environment(
            f"a disk of {size} kB", "run", HINDERED, before=_mounted(f"size={size}k"),
            needs_root=True,
        )
        for size in (100, 400, 900, 1800, 3000, 6000)
    ),
    Environment("no HOME", env={"HOME": None}),
    Environment("a HOME that is not there", env={"HOME": "/not/there", "XDG_CACHE_HOME": "/not"}),
    Environment("LC_ALL=C", env={"LC_ALL": "C"}),
    Environment("an ASCII stdout", env={**PLAIN_C, "PYTHONIOENCODING": "ascii"}),
    Environment("a Latin-1 stdout", env={**PLAIN_C, "PYTHONIOENCODING": "latin-1"}),
    Environment("an odd path", folder=ODD),
    Environment("a path of 630 characters", folder="/".join(["x" * 209] * 3)),
    Environment("reports in rep[/b]", reports="rep[/b]"),
    Environment("reports in rep[a]", reports="rep[a]"),
    Environment("64 files", before=_shell("ulimit -n 64")),
    Environment("256 files", before=_shell("ulimit -n 256")),
    Environment("1.5 GB of addresses", "run", HINDERED, before=_shell("ulimit -v 1500000")),
    Environment("another user", is_anothers=True, needs_root=True),
    Environment(
        "12 processes", "run", HINDERED | {2}, before=("prlimit", "--nproc=12"), is_anothers=True,
        needs_root=True,
    ),
    Environment("a TMPDIR that is not there", env={"TMPDIR": "/not/there"}),
    Environment("a TMPDIR on another file system", env={"TMPDIR": "OTHER"}),
    Environment("TERM=dumb", env={"TERM": "dumb", "NO_COLOR": None}),
)  # fmt: skip
_STDOUTS: tuple[Stdout, ...] = ("closed", "/dev/full", "a broken pipe", "head -1")
_DEAF = tuple(
    Environment(f"stdout: {stdout}", command, frozenset({4}), stdout=stdout)
    for stdout in _STDOUTS
    for command in ("run", "wrong", "audit", "check", "report")
)
_AS_WELL: Mapping[Command, tuple[str, ...]] = {
    "wrong": ("an ASCII stdout", "reports in rep[/b]", "a disk of 3000 kB", "64 files"),
    "audit": (
        "an ASCII stdout", "reports in rep[/b]", "a disk of 3000 kB", "64 files", "an odd path",
        "read-only reports", "no HOME", "another user",
    ),
    "check": ("an ASCII stdout", "an odd path"),
}  # fmt: skip
_MOVED = tuple(
    replace(one, command=command)
    for one in _BARE
    for command, names in _AS_WELL.items()
    if one.name in names
)
ENVIRONMENTS: Sequence[Environment] = (*_BARE, *_DEAF, *_MOVED)


def campaign(asked: Asked) -> Tally:
    """Try all environments, or a sample of them."""
    tally = Tally("environments", asked.seed, (NOT_THERE, ENDLESS))
    count = min(asked.tries, len(ENVIRONMENTS))
    with place() as recorded:
        run = _recorded(recorded, tally)
        for one in random.Random(asked.seed).sample(ENVIRONMENTS, count):
            if one.needs_root and not is_root():
                tally.figures["skipped, as they need root"] += 1
                continue
            _Try(one, run, tally).carry_out()
    if asked.tries >= len(ENVIRONMENTS):
        _four_at_once(tally)
    return tally


def _recorded(here: Place, tally: Tally) -> Path:
    """Make the run that is checked and reported."""
    code = run_to_its_end(_words("run", here.folder, here.reports, None), here)
    if code != 0:
        tally.violated(CODES, f"undisturbed: {code}; {here.said()[-300:]}")
    return next(iter((here.reports / RIGHT).iterdir()))


def _words(command: Command, folder: Path, reports: Path, run: Path | None) -> list[str | Path]:
    words: list[str | Path]
    match command:
        case "run" | "wrong":
            file = scenario(folder, RIGHT if command == "run" else WRONG[0])
            words = ["run", file, "--backend", "fork", "--reports", reports]
            return words
        case "audit":
            words = ["audit", job(RIGHT), "--no-confirm", "--max-runs", "3", "--reports", reports]
            return [*words, "--", "--epochs", "4"]
        case "check":
            assert run is not None
            shutil.copytree(run, folder / "run", ignore=shutil.ignore_patterns("storage"))
            return ["rejudge", folder / "run"]
        case "report":
            assert run is not None
            return ["report", run, "--format", "md"]


@dataclass(frozen=True)
class _Try:
    """One command in one environment."""

    one: Environment
    run: Path
    tally: Tally

    @property
    def what(self) -> str:
        return f"{self.one.command}, {self.one.name}"

    def carry_out(self) -> None:
        self.tally.tries += 1
        with place() as here, ExitStack() as opened:
            cwd = here.folder / self.one.folder
            cwd.mkdir(parents=True, exist_ok=True)
            other = Path(tempfile.mkdtemp(prefix="cc-", dir="/dev/shm"))
            opened.callback(shutil.rmtree, other, ignore_errors=True)
            words = _words(self.one.command, cwd, Path(self.one.reports), self.run)
            code = self._code(words, here, cwd, other)
            say(f"{self.what}: {code}")
            self._judge(code, here)
            look_for_leftovers(here, self.tally, self.what)
            if left := [p.name for p in other.iterdir() if not p.name.startswith("torch")]:
                self.tally.violated(FILES, f"{self.what}: {left}")
            self._look_for_paths(here, cwd)

    def _code(self, words: Sequence[str | Path], here: Place, cwd: Path, other: Path) -> int | None:
        env = with_env(here, self.one.env)
        if env.get("TMPDIR") == "OTHER":
            env["TMPDIR"] = str(other)
        options: dict[str, Any] = {"cwd": cwd, "env": env}
        if self.one.is_anothers:
            subprocess.run(["chown", "-R", str(NOBODY), str(here.folder)], check=True)
        before = (*(ANOTHER if self.one.is_anothers else ()), *self.one.before)
        if self.one.stdout == "closed":
            before = ("sh", "-c", 'exec "$@" >&-', "sh")
        with _stdout(self.one.stdout) as (stdout, hang_up):
            if stdout is not None:
                options["stdout"] = stdout
            harness = start(words, here, before, **options)
            hang_up()
            code = harness.wait(LIMIT_S)
        if code is None:
            self.tally.violated(ENDLESS, self.what)
            end(here.processes())
            harness.process.wait()
        return code

    def _judge(self, code: int | None, here: Place) -> None:
        if code is None or code in TRUTH[self.one.command] | self.one.besides:
            return
        story = f"{self.what}: {code}; {' '.join(here.said().split())[-300:]}"
        if code == 0:
            self.tally.violated(GREENER, story)
        elif code == 1 and "fail" in here.said():
            self.tally.violated(BLAMED, story)
        else:
            self.tally.violated(CODES, story)

    def _look_for_paths(self, here: Place, cwd: Path) -> None:
        """Note a report that is told and is not there; what was mounted went with the command."""
        if "mount" in " ".join(self.one.before):
            return
        for path in re.findall(r"^report: (.+)$", here.said(), re.MULTILINE):
            if "run/" not in path and not (cwd / path).exists():
                self.tally.violated(NOT_THERE, f"{self.what}: {path}")


def _nothing() -> None:
    return


@contextmanager
def _stdout(kind: Stdout) -> Iterator[tuple[int | None, Callable[[], None]]]:
    """Yield a file descriptor for stdout, and what to call once the command has it."""
    if kind == "/dev/full":
        full = os.open("/dev/full", os.O_WRONLY)
        yield full, _nothing
        os.close(full)
    elif kind in {"a broken pipe", "head -1"}:
        ours, theirs = os.pipe()

        def hang_up() -> None:
            os.close(theirs)
            if kind == "head -1":
                os.read(ours, 1)
            os.close(ours)

        yield theirs, hang_up
    else:
        yield None, _nothing


def _four_at_once(tally: Tally) -> None:
    """Run the same four times at once into one folder, which is new."""
    with place() as here:
        words = _words("run", here.folder, here.reports, None)
        every = [start(words, here) for _ in range(4)]
        codes = [harness.wait(LIMIT_S) for harness in every]
        tally.tries += 1
        say(f"four at once: {codes}")
        if codes != [0] * 4:
            tally.violated(CODES, f"four at once: {codes}")
        look_for_leftovers(here, tally, "four at once", within_s=GONE_S)


if __name__ == "__main__":
    main(campaign, tries=len(ENVIRONMENTS))
