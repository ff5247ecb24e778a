"""Restarts of right jobs of the corpus, beside processes that keep all cores busy: no alarm.

    python -m tests.campaigns.restarts --tries 2000

Right jobs are audited in a drawn order, each round with another seed, until so many restarts have
resumed from a checkpoint. Jobs of Ray Train run on the embedded backend.
"""

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from chaos.extensions.lab.selftest.corpus import CorpusAudits, CorpusJob, load_corpus
from tests.campaigns.forks import BUSY, busy
from tests.campaigns.frame import BLAMED, CLOCK, GREENER, ROOT, Asked, Tally, main, say

CORPUS = ROOT / "tests" / "corpus"
RUNS_PER_AUDIT = 16
LIMIT_S = 240.0


def campaign(asked: Asked) -> Tally:
    """Audit right jobs until so many restarts have resumed, and look at each answer."""
    tally = Tally("restarts", asked.seed)
    jobs = [job for job in load_corpus(CORPUS) if job.bug is None and not job.missing]
    tally.figures["right jobs"] = len(jobs)
    with tempfile.TemporaryDirectory(prefix="cr-") as folder, busy(BUSY):
        for number, job in enumerate(_draw(jobs, asked.seed)):
            if tally.tries >= asked.tries:
                break
            _audit(job, Path(folder), asked.seed + number // len(jobs), tally)
    tally.figures["busy processes beside"] = BUSY
    return tally


def _draw(jobs: Sequence[CorpusJob], seed: int) -> Iterator[CorpusJob]:
    """Yield the jobs in rounds, each round in an order of its own."""
    draw = random.Random(seed)
    while True:
        yield from draw.sample(jobs, len(jobs))


def _audit(job: CorpusJob, folder: Path, seed: int, tally: Tally) -> None:
    audits = CorpusAudits(
        CORPUS, folder, {}, Console(quiet=True), CLOCK, seed, RUNS_PER_AUDIT, LIMIT_S
    )
    [answer] = audits.audit_jobs([job])
    tally.tries += answer.resumed
    tally.figures[f"audits {answer.verdict}"] += 1
    what = f"{job.name}, seed {seed}: {answer.sentence}"
    say(f"  {tally.tries}: {answer.verdict} after {answer.seconds:.0f} s: {what}")
    if answer.verdict == "fail" or answer.blamed:
        tally.violated(BLAMED, what)
    if answer.verdict == "pass" and not answer.resumed:
        tally.violated(GREENER, what)


if __name__ == "__main__":
    main(campaign, tries=2_000)
