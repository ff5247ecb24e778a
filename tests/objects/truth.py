"""The truth of these jobs, found without chaos: `python -m tests.objects.truth [NAME ...]`.

Each is run clean. Then it is killed before a request that changes the store, for each of some
requests in the middle, and started again; then the answer to each is lost; then it is killed once
more, and the newest object is in no listing as it starts again. A right job comes to the end of
the clean run each time, and a later death never makes it begin earlier: what one start has gone on
from is not lost by the next request.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.objects.store import coast, empty
from tests.s3 import S3

HERE = Path(__file__).parent
JOBS = {path.stem: path for path in sorted(HERE.glob("jobs/*/*.py"))}
RANKS = {"fulmar_flights": 2, "dunlin_tides": 2}
REQUESTS = range(5, 12)


def started(s3: S3, name: str, kind: str = "kill", number: int = 0) -> tuple[str, str]:
    """Start a job once; return where it says that it starts, and how it ends; empty if not."""
    words = [str(HERE / "jobs/by_hand.py"), kind, str(number), str(JOBS[name])]
    if name in RANKS:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        words = [*launcher, f"--nproc-per-node={RANKS[name]}", *words]
    env = {**os.environ, **s3.env}
    command = [sys.executable, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    first, last = (
        next((line for line in lines if line.startswith(word)), "") for word in ("start", "end")
    )
    return first, last


def truth(s3: S3, name: str) -> list[str]:
    """Return what a job does wrong, in words."""
    empty(s3)
    _, clean = started(s3, name)
    assert clean, f"{name} does not come to its end by itself"
    found, latest = list[str](), ""
    for number in REQUESTS:
        empty(s3)
        started(s3, name, "kill", number)
        first, last = started(s3, name)
        if last != clean:
            found.append(f"death before request {number}: {last or 'no end'}; due: {clean}")
        elif first < latest:
            found.append(f"death before request {number}: {first}, after {latest}")
        latest = max(first, latest)
        empty(s3)
        ends = [started(s3, name, "lose", number)[1], started(s3, name)[1]]
        if set(filter(None, ends)) != {clean}:
            found.append(f"answer to request {number} lost: {ends}; due: {clean}")
    return [*found, *_with_a_late_listing(s3, name, clean)]


def _with_a_late_listing(s3: S3, name: str, clean: str) -> list[str]:
    empty(s3)
    started(s3, name, "kill", REQUESTS[-1])
    first, last = started(s3, name, "hide", 1)
    is_anew = first == "start 0"
    return [f"listing without the newest: {first}, {last}"] if is_anew or last != clean else []


def main(names: list[str]) -> None:
    with coast() as s3:
        for name in names or JOBS:
            found = truth(s3, name)
            print(f"{JOBS[name].parent.name} {name}: {found or 'nothing wrong'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
