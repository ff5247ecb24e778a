"""Audit public training scripts, and print chaos's answer beside what is true of each.

    python -m tests.wild.run FOLDER [--table ray] [--only 6,19] [--jobs 1] -- [audit options]

FOLDER holds the scripts of a table, such as `torchrun.toml`, under the names that stand there.
Each is audited as it is, at the default settings unless options of `chaos audit` follow `--`;
what it lacks here is put in its place from `standins`, which is data and network alone.
The table judges nothing: whether an answer is true, a person says who reads the two side
by side. Some scripts name folders outside, such as /mnt/cluster_storage: they are made.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.run.clock import SystemClock, elapsed_seconds
from tests.wild.prepared import PREPARED
from tests.wild.scripts import TABLES, Script, chosen, scripts

ROOT = Path(__file__).parents[2]
STANDINS = Path(__file__).with_name("standins")
HEAD = ("#", "script", "exit, time", "chaos says", "true of it", "true answers")
ENDS_IN_S = 30  # an audit that is interrupted cleans up after itself


@dataclass(frozen=True)
class Answer:
    """What an audit came to. `exit_code` is None where it had to be ended."""

    exit_code: int | None
    seconds: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """Where scripts lie, where results go, and how audits are called."""

    scripts: Path
    out: Path
    options: tuple[str, ...]
    limit_s: float

    def folder(self, script: Script) -> Path:
        """Return the folder of one script's audit."""
        return self.out / f"{script.number:02d}-{Path(script.script).stem}"

    def command(self, script: Script) -> list[str]:
        """Return the command line of one script's audit."""
        words = [sys.executable, "-m", "chaos", "audit", str(self.scripts / script.script)]
        words += ["--no-confirm", "--reports", str(self.folder(script) / "reports")]
        words += [*(self.filled(word, script) for word in script.options), *self.options]
        own = [self.filled(word, script) for word in script.arguments]
        return [*words, "--", *own] if own else words

    def filled(self, text: str, script: Script) -> str:
        """Return a text of the table with the folders of the audit and of all scripts."""
        work = self.folder(script) / "work"
        return text.replace("{work}", str(work)).replace("{scripts}", str(self.scripts))


def audit(script: Script, asked: Asked) -> Answer:
    """Audit one script in a folder of its own, with its stand-ins on the path."""
    folder, clock = asked.folder(script), SystemClock()
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)  # a job's files of an audit that was ended are in it
    for needed in (work, *map(Path, script.folders)):
        needed.mkdir(parents=True, exist_ok=True)
    for name in script.prepared:
        PREPARED[name](work)
    for name in script.beside:
        (work / name).symlink_to((asked.scripts / script.script).with_name(name))
    paths = [
        *(str(STANDINS / name) for name in script.standins),
        str(ROOT),
        os.environ.get("PYTHONPATH", ""),
    ]
    own = {name: asked.filled(text, script) for name, text in script.environment.items()}
    paths.append(own.pop("PYTHONPATH", ""))
    environment = {**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    output, began = folder / "output.txt", clock.now_ns()
    with output.open("wb") as file:
        process = subprocess.Popen(
            asked.command(script),
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        exit_code = ended(process, asked.limit_s)
    seconds = elapsed_seconds(began, clock)
    return Answer(exit_code, seconds, lines_of(newest_card(folder), output.read_text("utf-8")))


def ended(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Wait for an audit's exit code; beyond the limit interrupt it, then end its processes."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(ENDS_IN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return None


def newest_card(folder: Path) -> dict[str, Any] | None:
    """Return the last audit's card below a folder, or None where no audit came to its end."""
    cards = sorted(folder.glob("reports/audits/*/audit.json"))
    card: dict[str, Any] | None = json.loads(cards[-1].read_bytes()) if cards else None
    return card


def lines_of(card: dict[str, Any] | None, output: str) -> tuple[str, ...]:
    """Return what an audit said: its verdict, findings and notes, or the error that ended it."""
    if card is None:
        lines = output.strip().splitlines()
        said = [line for line in lines if line.startswith("chaos: ")]
        return tuple(said or lines[-1:])
    found = (finding_line(finding) for finding in card["findings"])
    notes = (f"{note['kind']}: {note['text']}" for note in card["notes"])
    return (card["verdict"]["sentence"], *found, *notes)


def finding_line(finding: dict[str, Any]) -> str:
    """Return one finding in a line: its check, how many strikes show it, and one of them."""
    kind = " ".join(filter(None, [finding.get("severity"), finding["defect"]["check"]]))
    return f"{kind} ({len(finding['runs'])}): {finding['smallest']['headline']}"


def table(rows: Iterable[tuple[Script, Answer]]) -> str:
    """Return answers beside truths, as a Markdown table."""
    lines = [HEAD, ("---",) * len(HEAD), *(_row(script, answer) for script, answer in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(lines: Iterable[str]) -> str:
    """Return lines as one cell of a Markdown table."""
    text = "<br>".join(line for line in lines if line)
    return " ".join(text.replace("|", "\\|").split())


def _row(script: Script, answer: Answer) -> tuple[str, ...]:
    code = "ended by the limit" if answer.exit_code is None else str(answer.exit_code)
    command = f"`{' '.join([script.script, *script.arguments])}`"
    return (
        str(script.number),
        cell([command, script.cut]),
        f"{code}, {answer.seconds:.0f} s",
        cell(answer.lines),
        cell([script.truth]),
        cell(script.answers),
    )


def main(arguments: Sequence[str]) -> None:
    """Audit the chosen scripts, and write the table after each."""
    own, options = _split(arguments)
    parser = argparse.ArgumentParser(
        prog="tests.wild.run", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("folder", type=Path, help="where the scripts lie")
    parser.add_argument("--table", choices=TABLES, default="ray", help="which table")
    parser.add_argument("--only", default="", help="numbers of the table, such as 6,19")
    parser.add_argument("--jobs", type=int, default=1, help="how many audits side by side")
    parser.add_argument("--out", type=Path, default=ROOT / "reports/wild")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one audit")
    given = parser.parse_args(own)
    try:
        rows = chosen(scripts(TABLES[given.table].read_text(encoding="utf-8")), given.only)
    except ValueError as error:
        parser.error(str(error))
    missing = [row.script for row in rows if not (given.folder / row.script).is_file()]
    if missing:
        parser.error(f"{given.folder} lacks {', '.join(missing)}: the table says where from")

    asked = Asked(given.folder.resolve(), given.out.resolve(), tuple(options), given.limit)
    done: list[tuple[Script, Answer]] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for row, answer in zip(rows, pool.map(lambda row: audit(row, asked), rows), strict=True):
            done.append((row, answer))
            (asked.out / "table.md").write_text(table(done), encoding="utf-8")
            sys.stdout.write(f"{table([done[-1]]).splitlines()[-1]}\n")
            sys.stdout.flush()


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part our own arguments from those of `chaos audit`, which follow `--`."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


if __name__ == "__main__":
    main(sys.argv[1:])
