"""The saving by places that share runs: audits together and one by one, timed in this one run.

The seconds are of whole audits, clean runs and start included; on Ray, of runs with faults alone.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
JOB = "scenarios/jobs/digits_ddp.py"
STEPS = "before the first commit;mid-epoch;epoch boundary;last epoch"
EVERY_STEP = ("--exhaustive", "--places", STEPS)
SOME_STEPS = ("--max-runs", "60", "--places", STEPS)
SHORT, LONG = 10, 60
ANSWER = ("--max-runs", "17", "--jobs", "1")  # a place of every group and part of training
ANSWERED = (4, 10, 40)  # epochs
SAVERS = ("digits_ddp", "digits_lightning", "spirals_torchrun", "spirals_spawned")
IN_SAVES = "inside a save"


class Timed(NamedTuple):
    """An audit's seconds, those of its runs with faults and of a clean run, its places and runs."""

    seconds: float
    places: int
    runs: int
    runs_s: float
    clean_s: float

    @property
    def each_s(self) -> float:
        """The seconds per place."""
        return self.seconds / self.places


def audited(folder: Path, job: str, *words: str) -> dict[str, Any]:
    """Return the card of an audit of a right job."""
    options = ("--no-confirm", "--format", "json", "--reports", str(folder))
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "audit", str(ROOT / job), *options, *words],
        cwd=folder,  # where a job by torchrun writes
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 2), done.stdout[-2000:] + done.stderr[-2000:]
    card: dict[str, Any] = json.loads(done.stdout)
    assert card["verdict"]["broken"] == 0
    return card


def audit(folder: Path, *options: str, epochs: int, batch: int) -> Timed:
    job = ["--epochs", str(epochs), "--batch-size", str(batch)]
    start = time.perf_counter()
    card = audited(folder, JOB, *options, "--", *job)
    seconds = time.perf_counter() - start
    runs_s = sum(run["seconds"] for run in card["runs"])
    tried = card["verdict"]["places"]["tried"]
    return Timed(seconds, tried, card["run_count"], runs_s, card["job"]["clean_s"])


def compared(folder: Path, name: str, *options: str, epochs: int, batch: int) -> None:
    together = audit(folder, *options, epochs=epochs, batch=batch)
    alone = audit(folder, *options, "--one-by-one", epochs=epochs, batch=batch)
    ratio = alone.each_s / together.each_s
    print(f"{name}: {together.places} places in {together.runs} runs, {together.seconds:.1f} s; ")
    print(f"    one by one in {alone.runs} runs, {alone.seconds:.1f} s: {ratio:.1f} times as long")


def answered(folder: Path, epochs: int) -> None:
    """Print the time of the runs with faults that an answer takes, in clean runs."""
    together = audit(folder, *ANSWER, epochs=epochs, batch=64)
    alone = audit(folder, *ANSWER, "--one-by-one", epochs=epochs, batch=64)
    print(
        f"an answer, {epochs} epochs: {together.places} places in {together.runs} runs, "
        f"{together.runs_s / together.clean_s:.1f} clean runs of {together.clean_s:.1f} s; "
        f"one by one {alone.runs_s / alone.clean_s:.1f}"
    )


def with_saves(folder: Path, name: str) -> None:
    """Print the runs of an answer that asks for every operation of a save, and of one without."""
    job = f"scenarios/jobs/{name}.py"
    card = audited(folder, job, *ANSWER)
    others = [row["group"] for row in card["covered"] if row["group"] != IN_SAVES]
    less = audited(folder, job, *ANSWER, "--places", ";".join(others))
    print(
        f"an answer, {name}: {card['run_count']} runs with {len(card['save_steps'])} operations of "
        f"its saves, {less['run_count']} without: {card['run_count'] / less['run_count']:.2f}"
    )


def compared_on_ray(folder: Path) -> None:
    asked = ("--backend", "ray", "--max-runs", "10", "--places", STEPS)
    together = audit(folder, *asked, epochs=12, batch=96)
    alone = audit(folder, *asked, "--one-by-one", epochs=12, batch=96)
    saved = alone.runs_s / together.runs_s
    print(f"on Ray: {together.places} places in {together.runs} runs of {together.runs_s:.0f} s; ")
    print(f"    one by one in {alone.runs} runs of {alone.runs_s:.0f} s: {saved:.1f} times as long")


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        compared(folder, "every step, 2 x 6 x 8", *EVERY_STEP, epochs=6, batch=96)
        short, long = (audit(folder, *SOME_STEPS, epochs=n, batch=96) for n in (SHORT, LONG))
        print(
            f"{long.places} steps of {LONG} epochs: {long.each_s / short.each_s:.1f} times as long "
            f"per place as of {SHORT}"
        )
        for epochs in ANSWERED:
            answered(folder, epochs)
        for name in SAVERS:
            with_saves(folder, name)
        if "--ray" in sys.argv:
            compared_on_ray(folder)


if __name__ == "__main__":
    main()
