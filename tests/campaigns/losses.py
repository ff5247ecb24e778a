"""Losses of a rank at held places, of a right job: none is blamed, and none does no harm.

    python -m tests.campaigns.losses --tries 12 --backend ray

SIGTERM and SIGKILL to a worker, and the loss of its node, each at a step, in a save, in the load
after a restart and before the first step after one: twelve in all, over and over.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice, product
from pathlib import Path

from tests.campaigns.commands import RIGHT, job
from tests.campaigns.frame import BLAMED, CODES, Asked, Tally, main, say
from tests.ray.command import Ran, chaos

NO_HARM = "losses that did no harm"
LOSSES = {
    "SIGTERM": "kill_worker: {signal: TERM}",
    "SIGKILL": "kill_worker: {}",
    "node": "kill_node: {}",
}
FIRST = "  - at: {epoch: 1, step: 2, rank: 1}\n    kill_worker: {}\n"
PLACES = {
    "step": "{epoch: 1, step: 2, rank: 1}",
    "save": "{epoch: 1, moment: saving, rank: 0}",
    "load": "{recovering_from: 0, stage: loading, rank: 0}",
    "first step": "{recovering_from: 0, stage: first_step, rank: 0}",
}
SCENARIO = """\
scenario: {loss} at a {place}
job:
  script: {script}
  args: {{epochs: 3}}
  workers: 2
  failure: {{max_failures: 2}}
faults:
{faults}"""


def campaign(asked: Asked) -> Tally:
    """Run so many losses, those of a place in one go, and look at the verdict on each."""
    tally = Tally(f"losses ({asked.backend})", asked.seed, others=(NO_HARM,))
    with tempfile.TemporaryDirectory() as folder:
        files = _scenarios(Path(folder), asked.tries, seed=asked.seed)
        for some in _batches(files, len(LOSSES)):
            ran = chaos("run", *some, "--backend", asked.backend, reports=Path(folder, "reports"))
            for file in some:
                _look_at(file.name.partition(".")[0], ran, tally)
            if ran.code:
                tally.violated(CODES, f"{ran.code}: {ran.output[-2000:]}")
    return tally


def _batches(files: Sequence[Path], count: int) -> Iterator[Sequence[Path]]:
    for begin in range(0, len(files), count):
        yield files[begin : begin + count]


def _scenarios(folder: Path, tries: int, *, seed: int) -> Sequence[Path]:
    """Write the scenarios, from another loss on with each seed."""
    pairs = list(product(PLACES, LOSSES))
    begin = (seed - 1) % len(pairs)
    files = []
    for number, (place, loss) in enumerate(islice(cycle(pairs), begin, begin + tries)):
        first = "" if place in ("step", "save") else FIRST
        faults = f"{first}  - at: {PLACES[place]}\n    {LOSSES[loss]}\n"
        text = SCENARIO.format(loss=loss, place=place, script=job(RIGHT), faults=faults)
        file = folder / f"{number}-{loss}-{place.replace(' ', '-')}.chaos.yaml"
        file.write_text(text, encoding="utf-8")
        files.append(file)
    return files


def _look_at(name: str, ran: Ran, tally: Tally) -> None:
    runs = [run for run in ran.runs() if run.parent.name == name]
    tally.tries += 1
    if len(runs) != 1 or not (runs[0] / "verdict.json").exists():
        tally.violated(CODES, f"{name}: no verdict among {[run.parent.name for run in ran.runs()]}")
        return
    verdict: Mapping[str, object] = json.loads((runs[0] / "verdict.json").read_bytes())
    text = json.dumps(verdict)
    tally.figures[f"runs {verdict['status']}"] += 1
    say(f"  {name}: {verdict['status']}: {verdict['headline']}")
    if verdict["status"] == "fail":
        tally.violated(BLAMED, f"{name}: {verdict['headline']}")
    if "did no harm" in text:
        tally.violated(NO_HARM, f"{name}: {verdict['headline']}")


if __name__ == "__main__":
    main(campaign, tries=12, backends=("fork", "ray"))
