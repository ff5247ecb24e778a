"""The share of right jobs whose audit runs out of time beside eight busy processes.

    python -m tests.bench.busy [N]

The corpus's right jobs are audited at the defaults; with a number, every N-th job alone.
"""

import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.extensions.lab.selftest.corpus import CorpusJob, load_corpus

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"
BUSY = 8


def spin() -> None:
    while True:
        pass


@contextmanager
def busy() -> Iterator[None]:
    """Keep so many processes busy meanwhile."""
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(BUSY)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def answer(job: CorpusJob) -> tuple[str, float, float]:
    """Return what an audit says, its seconds, and those of its clean run."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "chaos", "audit", str(job.script(CORPUS))]
        words += ["--launcher", job.launcher, "--workers", str(job.workers), "--no-confirm"]
        words += ["--retries", str(job.retries)] if job.retries is not None else []
        words += ["--reports", folder, "--format", "json"]
        words += ["--", *job.args] if job.args else []
        done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
        card = json.loads(done.stdout)
    return card["verdict"]["sentence"], card["seconds"], card["job"]["clean_s"]


def main() -> None:
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    right = [job for job in load_corpus(CORPUS) if job.bug is None and not job.missing]
    late, chosen = 0, right[::every]
    with busy():
        for job in chosen:
            sentence, seconds, clean_s = answer(job)
            late += "--time-limit" in sentence
            print(
                f"{job.name}: {seconds:.0f} s, a clean run {clean_s:.1f} s: {sentence}", flush=True
            )
    print(f"{late} of {len(chosen)} right jobs ran out of time beside {BUSY} busy processes")


if __name__ == "__main__":
    main()
