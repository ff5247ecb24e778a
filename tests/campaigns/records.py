"""Corrupted records of runs and suites, judged by `chaos rejudge`, `report` and `compare`.

    python -m tests.campaigns.records --tries 2000 --seed 1

The runs are made first: one of a right job, and some of wrong ones. Then files of copies are
corrupted. What is said of them may be that they cannot be judged; it must never be that a
wrong job passes or a right one fails, and never a traceback.
"""

import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.called import Done, chaos
from tests.campaigns.commands import WRONG
from tests.campaigns.frame import (
    BLAMED,
    CODES,
    GREENER,
    TRACEBACK,
    TRACEBACKS,
    Asked,
    Tally,
    TooSlowError,
    bounded,
    main,
    say,
)
from tests.campaigns.recorded import (
    CORRUPTIONS,
    PRECIOUS,
    Hurt,
    Recorded,
    Shelf,
    change_word,
    record,
)

SLOW, OVERWRITTEN, ESCAPED = "slower than 30 s", "foreign files overwritten", "escape sequences"
BOUND_S = 30.0
# How often the page is drawn as well: it takes a second, and all else a tenth of one.
PAGE_SHARE = 0.1
FILES = (
    "plan.json", "env.json", "verdict.json", "summary.json", "scenario.yaml", "history.jsonl",
    "history.jsonl", "history.jsonl", "baseline.jsonl", "baseline.jsonl", "journals",
)  # fmt: skip


def campaign(asked: Asked) -> Tally:
    """Corrupt so many copies."""
    tally = Tally("corrupted records", asked.seed, (SLOW, OVERWRITTEN, ESCAPED))
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="cc-") as name:
        folder = Path(name)
        shelf = record(folder / "recorded", WRONG if asked.tries >= len(WRONG) * 20 else WRONG[:1])
        say(f"{len(shelf.runs)} runs are recorded")
        for number in range(asked.tries):
            tally.tries += 1
            one = _Try(shelf, folder / "try", tally, draw, number)
            one.of_the_suite() if draw.random() < 0.1 else one.of_a_run()
            shutil.rmtree(folder / "try")
            if number % 100 == 99:
                say(f"{number + 1} judged, {len(tally.violations)} violations so far")
    return tally


@dataclass
class _Try:
    """A copy that is corrupted and then judged, in a folder of its own."""

    shelf: Shelf
    folder: Path
    tally: Tally
    draw: random.Random
    number: int
    what: str = ""

    def of_a_run(self) -> None:
        run = self.draw.choice([self.shelf.runs[0], self.draw.choice(self.shelf.runs)])
        copy = self._copy(run.folder)
        others = [other.folder for other in self.shelf.runs if other is not run]
        done = [self._corrupt(copy, others) for _ in range(self.draw.choice((1, 1, 2)))]
        truth = "right" if run.is_right else run.folder.parent.name
        self.what = f"try {self.number}, {truth}, {'; '.join(done)}"
        self._read(copy, run)
        self._check(copy, run)

    def of_the_suite(self) -> None:
        """Corrupt a suite's figures."""
        reports = self.folder / "rep"
        shutil.copytree(self.shelf.reports, reports)
        suite = reports / "suites" / self.shelf.suite.name
        file = suite / "suite.json"
        others = [self.shelf.runs[0].folder / "summary.json"]
        self.what = f"try {self.number}, {self._hurt(file, others)}"
        self._called("report", "--trend", "--reports", reports)
        self._called("report", "--reports", reports)
        self._judge_rows(self._json("report", suite, "--format", "json"), "runs", "standing")
        compared = self._json("compare", self.shelf.suite, suite, "--format", "json")
        self._judge_rows(compared, "scenarios", "after")

    def _copy(self, run: Path) -> Path:
        copy = self.folder / "rep" / run.parent.name / run.name
        shutil.copytree(run, copy)
        (copy / "report.html").touch()
        return copy

    def _corrupt(self, copy: Path, others: Sequence[Path]) -> str:
        name = self.draw.choice(FILES)
        if name == "journals":  # they are read where chaos died before it merged them
            _set_aside(copy / "history.jsonl")
            name = f"journals/{self.draw.choice(sorted((copy / name).iterdir())).name}"
        file = copy / name
        if not file.is_file() or file.is_symlink():
            return f"{name}: is gone"
        there = [other / name for other in others if (other / name).is_file()]
        return self._hurt(file, there or [file])

    def _hurt(self, file: Path, others: Sequence[Path]) -> str:
        precious = self.folder / "precious"
        precious.write_text(PRECIOUS)
        # What a judgement says, whoever changes a word of it by hand can have it say.
        told = file.name in {"verdict.json", "summary.json", "suite.json"}
        corruption = self.draw.choice([c for c in CORRUPTIONS if not (told and c is change_word)])
        corruption(Hurt(file, others, precious), self.draw)
        return f"{file.name}: {corruption.__name__}"

    def _check(self, copy: Path, run: Recorded) -> None:
        if self.draw.random() < PAGE_SHARE:
            done = self._called("rejudge", copy)
        else:
            with mock.patch("chaos.harness.render_run", return_value=""):
                done = self._called("rejudge", copy)
        if done is None:
            return
        said = {0: "pass", 1: "fail", 2: "inconclusive", 3: "refused"}.get(done.code, "failed")
        self.tally.figures[
            f"{said} by check, of {'a right' if run.is_right else 'a wrong'} job"
        ] += 1
        if done.code not in {0, 1, 2, 3} and "cannot write there" not in done.err:
            self.tally.violated(CODES, f"{self.what}: check: {done.code}")
        self._judge(said, run, "check")

    def _read(self, copy: Path, run: Recorded) -> None:
        """Have the copy reported or compared, before `check` writes a new verdict into it."""
        forms = ("json", "md", "html" if self.draw.random() < PAGE_SHARE * 2 else "compare")
        match self.draw.choice(forms):
            case "compare":
                found = self._json("compare", run.folder, copy, "--format", "json")
                for row in _rows(found, "scenarios"):
                    words = {"expected": "pass", "unexpected": "fail"}
                    self._judge(words.get(str(row.get("after")), "inconclusive"), run, "compare")
            case "json":
                found = self._json("report", copy, "--format", "json")
                if isinstance(found, dict):
                    self._judge(str(found["verdict"]["status"]), run, "report")
            case form:
                self._called("report", copy, "--format", form, "-o", self.folder / f"x.{form}")

    def _judge(self, said: str, run: Recorded, command: str) -> None:
        if said == "pass" and not run.is_right:
            self.tally.violated(GREENER, f"{self.what}: {command}")
        if said == "fail" and run.is_right:
            self.tally.violated(BLAMED, f"{self.what}: {command}")

    def _judge_rows(self, found: Any, key: str, word: str) -> None:
        """Judge a suite by how many of its jobs are right: names may be corrupted as well."""
        said = [row.get(word) for row in _rows(found, key)]
        if said.count("expected") > sum(run.is_right for run in self.shelf.runs):
            self.tally.violated(GREENER, f"{self.what}: {said}")
        if said.count("unexpected") > sum(not run.is_right for run in self.shelf.runs):
            self.tally.violated(BLAMED, f"{self.what}: {said}")

    def _json(self, *words: str | Path) -> Any:
        done = self._called(*words)
        if done is None or not done.out.startswith("{"):
            return None
        return json.loads(done.out)

    def _called(self, *words: str | Path) -> Done | None:
        """Call `chaos`; returns None where it does not come to an end in time."""
        command = str(words[0])
        try:
            done = bounded(lambda: chaos(*words, folder=self.folder), seconds=BOUND_S)
        except TooSlowError:
            self.tally.violated(SLOW, f"{self.what}: {command}")
            return None
        except Exception as error:  # noqa: BLE001 - past chaos's own net, and a traceback
            self.tally.violated(TRACEBACKS, f"{self.what}: {command}: {error!r}")
            return None
        # A verdict that cannot be kept, as on a full disk, is said, and is no job's fault.
        is_unkept = done.code == 4 and "cannot write there" in done.err
        if (done.code == 4 and not is_unkept) or TRACEBACK in done.err:
            last = [line for line in done.err.splitlines() if line.strip()][-2:]
            self.tally.violated(TRACEBACKS, f"{self.what}: {command}: {' '.join(last)[:200]}")
        if "\x1b" in done.out + done.err or "\n::error" in f"\n{done.out}":
            self.tally.violated(ESCAPED, f"{self.what}: {command}")
        precious = self.folder / "precious"
        if precious.read_text() != PRECIOUS:
            self.tally.violated(OVERWRITTEN, f"{self.what}: {command}")
            precious.write_text(PRECIOUS)
        return done


def _set_aside(file: Path) -> None:
    """Take a file away, whatever has become of it."""
    if file.is_dir():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)


def _rows(found: Any, key: str) -> Sequence[dict[str, Any]]:
    rows = found.get(key, ()) if isinstance(found, dict) else ()
    return [row for row in rows if isinstance(row, dict)]


if __name__ == "__main__":
    main(campaign, tries=2_000)
