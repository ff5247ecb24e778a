"""Recorded runs of a right job and of wrong ones, and seeded corruptions of what they wrote."""

import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.campaigns.commands import RIGHT, WRONG, place, run_to_its_end, scenario
from tests.campaigns.mutations import (
    DEPTHS,
    delete_lines,
    delete_span,
    flip,
    insert_token,
    misspell,
    not_text,
    reorder_lines,
    repeat_line,
    replace_value,
    truncate,
)

ESCAPES = rb"\u001b]0;owned\u0007\u001b[2J\n::error::owned"
PRECIOUS = "precious"
# What a person, or a flipped bit that happens to fit, could make of a verdict.
WORDS = (
    (b'"fail"', b'"pass"'), (b'"pass"', b'"fail"'), (b'"inconclusive"', b'"pass"'),
    (b'"unexpected"', b'"expected"'), (b'"expected"', b'"unexpected"'), (b"false", b"true"),
    (b"true", b"false"), (b'"ok"', b'"fail"'), (b"WorkerStarted", b"StepDone"),
)  # fmt: skip
_LEFT_OUT = shutil.ignore_patterns("storage", "report.html")
PLAIN = (
    flip, flip, truncate, delete_span, delete_lines, delete_lines, repeat_line, reorder_lines,
    insert_token, replace_value, misspell, not_text,
)  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """The folder of a run or a suite, and whether its job is right; of a suite: how many are."""

    folder: Path
    is_right: bool


@dataclass(frozen=True)
class Shelf:
    """What was recorded: runs, the suite that they were, and the reports folder of all."""

    reports: Path
    runs: tuple[Recorded, ...]
    suite: Path


def record(into: Path, wrong: Sequence[str] = WRONG) -> Shelf:
    """Run a right job and wrong ones on the embedded backend, in one suite."""
    names = (RIGHT, *wrong)
    with place() as here:
        files = [scenario(here.folder, name) for name in names]
        options: list[str | Path] = ["--backend", "fork", "--reports", here.reports]
        words = ["run", *files, *options]
        code = run_to_its_end(words, here)
        if code != 1 or not all((here.reports / name).is_dir() for name in names):
            raise RuntimeError(f"the suite to corrupt ended with {code}: {here.said()[-2000:]}")
        shutil.copytree(here.reports, into, ignore=_LEFT_OUT)
    [suite] = (into / "suites").iterdir()
    runs = [Recorded(next((into / name).iterdir()), name == RIGHT) for name in names]
    return Shelf(into, tuple(runs), suite)


@dataclass(frozen=True)
class Hurt:
    """What is corrupted: a file of a copied run, others' files to mix in, a file outside."""

    file: Path
    others: Sequence[Path]
    precious: Path


Corruption: TypeAlias = Callable[[Hurt, random.Random], None]


def _by(mutation: Callable[[bytes, random.Random], bytes]) -> Corruption:
    def corrupt(hurt: Hurt, draw: random.Random) -> None:
        hurt.file.write_bytes(mutation(hurt.file.read_bytes(), draw))

    corrupt.__name__ = mutation.__name__
    return corrupt


def change_word(hurt: Hurt, draw: random.Random) -> None:
    """Put one word in the place of another, once."""
    data = hurt.file.read_bytes()
    there = [pair for pair in WORDS if pair[0] in data] or [(data[:1], b"x")]
    hurt.file.write_bytes(data.replace(*draw.choice(there), 1))


def take_anothers(hurt: Hurt, draw: random.Random) -> None:
    """Put the file of another run there, or another file of the same kind of this one."""
    beside = [p for p in hurt.file.parent.glob(f"*{hurt.file.suffix}") if p != hurt.file]
    kin = [p for p in beside if hurt.file.suffix == ".jsonl" and p.is_file()]
    others = [other for other in hurt.others if other != hurt.file]
    hurt.file.write_bytes(draw.choice([*others, *kin, hurt.precious]).read_bytes())


def remove(hurt: Hurt, draw: random.Random) -> None:
    """Take the file away."""
    del draw
    hurt.file.unlink()


def empty(hurt: Hurt, draw: random.Random) -> None:
    """Leave nothing in it."""
    del draw
    hurt.file.write_bytes(b"")


def deepen(hurt: Hurt, draw: random.Random) -> None:
    """Put deep JSON in the place of the file, or on a line of its own."""
    depth = draw.choice(DEPTHS)
    deep = b"[" * depth + b"]" * depth if draw.random() < 0.5 else b'{"a":' * depth + b"}" * depth
    lines = hurt.file.read_bytes().splitlines(keepends=True)
    at = draw.randrange(len(lines) + 1)
    whole = b"".join([*lines[:at], deep + b"\n", *lines[at:]])
    hurt.file.write_bytes(deep if draw.random() < 0.5 else whole)


def make_fifo(hurt: Hurt, draw: random.Random) -> None:
    """Put a pipe there, which nobody writes to."""
    del draw
    hurt.file.unlink()
    os.mkfifo(hurt.file)


def make_link(hurt: Hurt, draw: random.Random) -> None:
    """Put a link there: to itself, to nothing, to a folder, a device, or a file outside."""
    hurt.file.unlink()
    targets = (hurt.file, Path("not-there"), hurt.file.parent, Path("/dev/null"), hurt.precious)
    hurt.file.symlink_to(draw.choice(targets))


def make_folder(hurt: Hurt, draw: random.Random) -> None:
    """Put a folder there."""
    del draw
    hurt.file.unlink()
    hurt.file.mkdir()


def guess_drafts(hurt: Hurt, draw: random.Random) -> None:
    """Put links to a file outside where drafts of new files would be begun."""
    del draw
    for name in ("verdict.json", "summary.json", "junit.xml", "report.html"):
        link = hurt.file.parent / f".{name}.{os.getpid()}"
        if not link.is_symlink():
            link.symlink_to(hurt.precious)


def add_escapes(hurt: Hurt, draw: random.Random) -> None:
    """Put what moves a terminal into a text."""
    data = hurt.file.read_bytes()
    quotes = [at for at in range(len(data)) if data[at : at + 1] == b'"']
    at = draw.choice(quotes) + 1 if quotes else 0
    hurt.file.write_bytes(data[:at] + ESCAPES + data[at:])


CORRUPTIONS: Sequence[Corruption] = (
    *map(_by, PLAIN), change_word, change_word, take_anothers, take_anothers, take_anothers,
    remove, empty, deepen, make_fifo, make_link, make_folder, guess_drafts, add_escapes,
)  # fmt: skip
