"""The guard over the corpus: jobs started by hand, ranks killed for real, and no harness.

    python -m tests.bench.guard FILE [--seeds N] [--kills N] [--ray] [--workers N] [--right]
        [--only NAME]...
    python -m tests.bench.guard FILE --in-saves [--seeds N] [--right] [--only NAME]...

Each job of torchrun's and of python's whose libraries are installed is run without the guard
and with it, and what it leaves is compared byte by byte. Then it is run once for each seed with
two kills (SIGKILL, of a rank at a step that the seed draws), or as many as are asked for, started
again each time, and what the guard says of each restart is a line of FILE. With --in-saves each
seed draws an operation on one of the job's own files instead: strace, which has to be installed,
kills the process as it makes that system call, so that it is not done. With --ray it is Ray's
jobs, on a cluster that each start makes; their files are not compared, as Ray names them anew.
With --workers torchrun's jobs are run with so many ranks. With --right the jobs with a bug are
left out. The table at the end is over all lines of FILE: which jobs with a bug it found, and which
right ones it blamed.
"""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.report import load_judged_restarts
from chaos.extensions.lab.selftest.corpus import CorpusJob, load_corpus

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"
SPARE, RUN_S = 4, 300  # starts beyond one for each kill, and seconds of one for each kill
# The system calls by which a save comes into being; of opens those that write.
CALLS = (
    *("openat", "write", "writev", "pwrite64", "ftruncate", "fsync", "mkdir", "mkdirat", "rmdir"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "symlink", "symlinkat"),
)
_CALL = re.compile(r'(\d+) +(\w+)\((?:AT_FDCWD<[^>]*>, )?(?:\d+<(/[^>]*)>|"([^"]*)")(.*)')
ENV = {
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    # Without it torch 2.13 itself fails some restarts (pytorch#135712).
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}

RAY_ENV = {
    # Of a cluster that each start makes: a processor for each of up to eight workers.
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 8}',
    # A report waits until the controller has seen it: for 2 s by default (Ray 2.60).
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",
}


class Operation(NamedTuple):
    """A system call on a path, as the script writes it, by its number among those of its kind.

    Each thread counts its own.
    """

    call: str
    path: str
    number: int

    def killed_at(self) -> list[str]:
        """Return the words before a command whose process ends as it makes this call."""
        at = f"inject={self.call}:signal=KILL:when={self.number}"
        return [*_traced("/dev/null", self.call), "-P", self.path, "-e", at]


def _traced(log: str, *calls: str) -> list[str]:
    # Without --seccomp-bpf: with it strace 6.1 sends no signal.
    return ["strace", "-f", "-qq", "-y", "-o", log, "-e", ",".join(calls)]


def operations(trace: str, folder: Path) -> list[Operation]:
    """Return the operations in a trace that change files below a folder."""
    counts, found = Counter[tuple[str, str, str]](), list[Operation]()
    for line in trace.splitlines():
        if (read := _CALL.match(line)) is None:
            continue
        thread, call, path, rest = read[1], read[2], read[3] or read[4], read[5]
        counts[thread, call, path] += 1
        is_own = not path.startswith("/") or Path(path).is_relative_to(folder)
        is_own &= Path(path).name != "log"
        if is_own and (call != "openat" or "O_CREAT" in rest):
            found.append(Operation(call, path, counts[thread, call, path]))
    return found


def drawn_from(every: Sequence[Operation], count: int, drawn: random.Random) -> list[Operation]:
    """Return some operations, of as many kinds and paths as there are: most of all are writes."""
    kinds: dict[tuple[str, str], list[Operation]] = {}
    for operation in drawn.sample(every, len(every)):
        kinds.setdefault(operation[:2], []).append(operation)
    turns = zip_longest(*drawn.sample([*kinds.values()], len(kinds)))
    return [operation for turn in turns for operation in turn if operation is not None][:count]


def command(job: CorpusJob, kills: int) -> list[str]:
    """Return the words that start a job."""
    script = [str(job.script(CORPUS)), *map(str, job.args)]
    if job.launcher != "torchrun":
        return [sys.executable, *script]
    retries = "0" if job.restart == "command" else str(kills + 1)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    options = ["--nproc-per-node", str(job.workers), "--max-restarts", retries]
    return [*torchrun, *options, "--monitor-interval", "0.1", "--", *script]


def run(
    job: CorpusJob,
    folder: Path,
    guard: Path | None,
    kills: Sequence[int] = (),
    first: Sequence[str] = (),
) -> int:
    """Run a job until it succeeds; a rank is killed after each of so many steps of training.

    `first` are words before the command of the first start.
    """
    words, of_ray = command(job, len(kills)), job.launcher == "ray"
    temporary = folder.with_name(f"{folder.name}-tmp")
    temporary.mkdir()
    env = os.environ | ENV | {"TMPDIR": str(temporary)}
    if of_ray:  # the home has its results; sockets in the job's folder would have too long a name
        env = os.environ | ENV | RAY_ENV | {"HOME": str(folder)}
    if guard is not None and of_ray:
        env |= {
            "RAY_TRAIN_CALLBACKS": "chaos.extensions.guard.RayCallback",
            "CHAOS_GUARD": str(guard),
        }
    elif guard is not None:
        words = [sys.executable, "-m", "chaos", "guard", "--folder", str(guard), "--", *words]
    left = list(kills)
    rc = -1
    with (folder / "log").open("wb") as log:
        for number in range(len(kills) + SPARE):
            own = [*(first if number == 0 else ()), *words]
            started = subprocess.Popen(
                own, cwd=folder, env=env, stdout=log, stderr=log, process_group=0
            )
            killer = threading.Thread(target=_kill, args=(guard, left, started), daemon=True)
            killer.start()
            try:
                rc = started.wait(RUN_S * (1 + len(kills)))
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                return started.wait()
            killer.join(1)
            if rc == 0:
                break
    return rc


def _kill(guard: Path | None, left: list[int], job: subprocess.Popen[bytes]) -> None:
    """Kill the last rank whenever it has made as many steps as are due next."""
    killed = set[int]()  # one that nobody has waited for yet still has its folder in /proc
    while guard is not None and left and job.poll() is None:
        folder = GuardFolder(str(guard))
        ranks = {start.rank for start in folder.load_starts()}
        starts = folder.load_starts(max(ranks)) if ranks else []
        pid = starts[-1].pid if starts else 0
        if pid and pid not in killed and Path(f"/proc/{pid}").exists():
            steps = folder.load_steps(starts[-1].rank, starts[-1].start)
            if steps and steps[-1].number >= left[0]:
                left.pop(0)
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def left_behind(folder: Path) -> dict[str, str]:
    """Return digests of the files that a job has left, by their paths."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "log")
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()[:16]
        for path in files
    }


def rows(job: CorpusJob, seeds: int, kills: int) -> Iterator[dict[str, Any]]:
    """Yield what the guard says of a job's restarts, and first whether it changed anything."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for own in ("plain", "again", "guarded"):
            (base / own).mkdir()
        unguarded = () if job.launcher == "ray" else ("plain", "again")
        rcs = [run(job, base / own, None) for own in unguarded]
        rcs.append(run(job, base / "guarded", base / "guard"))
        plain, again, guarded = (left_behind(base / o) for o in ("plain", "again", "guarded"))
        repeats = {path for path, digest in plain.items() if again.get(path) == digest}
        differing = sorted(path for path in repeats if guarded.get(path) != plain[path])
        steps = [len(GuardFolder(str(base / "guard")).load_steps(0, 0))]
        yield {"job": job.name, "rcs": rcs, "files": len(repeats), "changed": differing} | {
            "steps": steps[0]
        }
        for seed in range(seeds):
            drawn = random.Random(f"{job.name}-{seed}")
            at = sorted(drawn.randrange(steps[0] // 4, max(3, steps[0] - 1)) for _ in range(kills))
            yield {"job": job.name, "seed": seed, "kills": at} | said(job, base, seed, at)


def rows_in_saves(job: CorpusJob, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield what the guard says where a process ended as it made a call of a save."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        counted, trace = base / "counted", base / "trace"
        counted.mkdir()
        run(job, counted, base / "guard", first=_traced(str(trace), *CALLS))
        every = operations(trace.read_text(encoding="utf-8", errors="replace"), counted)
        for seed, operation in enumerate(drawn_from(every, seeds, random.Random(job.name))):
            path = operation.path.replace(str(counted), str(base / f"killed-{seed}"))
            words = operation._replace(path=path).killed_at()
            at = [operation.call, operation.path.replace(str(counted), "."), operation.number]
            yield {"job": job.name, "seed": seed, "at": at} | said(job, base, seed, (), words)


def said(
    job: CorpusJob, base: Path, seed: int, kills: Sequence[int], first: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what the guard says of a job's restarts, and how the job ended."""
    folder, guard = base / f"killed-{seed}", base / f"guard-{seed}"
    folder.mkdir()
    rc = run(job, folder, guard, kills, first)
    restarts = [
        {"start": r.start, "rank": r.rank, "step": r.step, "replayed": r.replayed}
        | {"same_inputs": r.same_inputs, "same_losses": r.same_losses}
        | {"findings": [[f.level, f.kind, f.text] for f in r.findings]}
        for r in load_judged_restarts(GuardFolder(str(guard)))
    ]
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    failed = sorted({w for w in log.splitlines() if "chaos-guard: not watched" in w})
    return {"rc": rc, "restarts": restarts, "not watched": failed}


def table(lines: Sequence[dict[str, Any]], truth: dict[str, CorpusJob]) -> Iterator[str]:
    """Yield each job's answer beside the checks that an audit's findings are of, and the counts."""
    right, wrong = list[set[str]](), dict[str, set[str]]()  # levels of a restart, and of a job
    for name, job in truth.items():
        own = [row for row in lines if row["job"] == name and "restarts" in row]
        every = [restart["findings"] for row in own for restart in row["restarts"]]
        if not every:
            yield f"{name:24} no restart"
            continue
        if job.bug is None:
            right += [{level for level, _, _ in findings} for findings in every]
        else:
            wrong[name] = {level for findings in every for level, _, _ in findings}
        told = sorted({f"{level} {kind}" for findings in every for level, kind, _ in findings})
        audit = "right" if job.bug is None else ",".join(job.checks)
        yield f"{name:20} {len(every):3}  {', '.join(told):44} {audit}"
    found = [name for name, levels in wrong.items() if "mismatch" in levels]
    hinted = [name for name, levels in wrong.items() if levels == {"notice"}]
    changed = {row["job"]: row["changed"] for row in lines if row.get("changed")}
    yield f"\nbugs found: {len(found)} of {len(wrong)}, and by a notice alone: {len(hinted)}"
    yield (
        f"restarts of right jobs (each rank's): {len(right)}, of which blamed: "
        f"{sum('mismatch' in levels for levels in right)}, with a notice: "
        f"{sum('notice' in levels for levels in right)}"
    )
    compared = sum(bool(row.get("files")) for row in lines)
    yield f"jobs whose files the guard changed: {changed or 'none'}, of {compared} compared"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--in-saves", action="store_true")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--right", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    given = parser.parse_args()
    jobs = [
        job.model_copy(update={"workers": given.workers or job.workers})
        for job in load_corpus(CORPUS)
        if (job.launcher == "ray") == given.ray
        and (job.launcher == "torchrun" or not given.workers)
        and not job.missing
        and not (given.right and job.bug)
        and (not given.only or job.name in given.only)
    ]
    given.file.touch()
    lines = [json.loads(line) for line in given.file.read_text(encoding="utf-8").splitlines()]
    done = {row["job"] for row in lines}
    with given.file.open("a", encoding="utf-8") as file:
        for job in jobs:
            if job.name not in done:
                found = rows(job, given.seeds, given.kills)
                for row in rows_in_saves(job, given.seeds) if given.in_saves else found:
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    lines.append(row)
    seen = {row["job"] for row in lines}
    truth = {job.name: job for job in load_corpus(CORPUS) if job.name in seen}
    for line in table(lines, truth):
        print(line)


if __name__ == "__main__":
    main()
