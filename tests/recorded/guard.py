"""Recorded runs, and what was said of each: whoever rebuilds a check must not change its answer.

    python -m tests.recorded.guard --keep FOLDER ... [--most 240]   take runs from report folders
    python -m tests.recorded.guard --add RUN ...                    add runs, by their folders
    python -m tests.recorded.guard --accept                         take today's answers for right

`runs.tar.xz` holds the plan, the history and the baselines of each run, with no path of the
machine that made it; `answers.json` says of each run how it was judged, with the checks that did
not pass and the kinds of its findings. A difference is either a defect of the change or the
purpose of it, which its commit then says.
"""

import argparse
import io
import json
import random
import re
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from chaos.check.judge import judge
from chaos.harness import load_recorded_history
from chaos.run.directory import RunDirectory

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNS, ANSWERS = HERE / "runs.tar.xz", HERE / "answers.json"
MOST = 240
SUM = re.compile(rb'^\{"sum":"[0-9a-f]{8}",', re.MULTILINE)
PLAN = re.compile(rb'"plan":"[0-9a-f]{32}"')
LARGEST = 1_000_000  # bytes of a history; more would say the same at greater length
Answer: TypeAlias = "dict[str, str | int | list[str]]"


def answers() -> dict[str, Answer]:
    """Judge all recorded runs; returns for each its verdict and the checks that did not pass."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(RUNS) as archive:
        archive.extractall(folder, filter="data")
        runs = sorted(file.parent for file in Path(folder).rglob("plan.json"))
        return {str(run.relative_to(folder)): _answer(run) for run in runs}


def accepted() -> dict[str, Answer]:
    """Return what was said of each run when the answers were last accepted."""
    found: dict[str, Answer] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found


def _answer(run: Path) -> Answer:
    directory = RunDirectory(run)
    verdict = judge(
        directory.load_plan(), load_recorded_history(directory), directory.load_baseline()
    )
    invalid = [told.check for told in verdict.results if told.status == "fail"]
    unknown = [told.check for told in verdict.results if told.status == "inconclusive"]
    kinds = [anomaly.kind for result in verdict.broken for anomaly in result.anomalies]
    return {
        "verdict": verdict.status,
        "checks": len(verdict.results),
        "fail": invalid,
        "inconclusive": unknown,
        "kinds": list(dict.fromkeys(kinds)),
    }


def _keep(folders: Sequence[Path], most: int) -> None:
    """Write an archive of runs that are spread over all jobs alike, drawn by a fixed seed."""
    by_job: dict[str, list[Path]] = defaultdict(list)
    for history in sorted(file for folder in folders for file in folder.rglob("history.jsonl")):
        run = history.parent
        if _is_struck(run) and history.stat().st_size < LARGEST:
            by_job[_job_of(run)].append(run)
    draw = random.Random(0)
    for runs in by_job.values():
        draw.shuffle(runs)
    turns = (runs[turn] for turn in range(most) for runs in by_job.values() if turn < len(runs))
    chosen = [run for run, _ in zip(turns, range(most), strict=False)]
    _write(
        (f"{_job_of(run)}-{number}/{name}", content)
        for number, run in enumerate(chosen)
        for name, content in _files(run)
    )
    sys.stderr.write(f"{len(chosen)} runs of {len(by_job)} jobs, {RUNS.stat().st_size:,} bytes\n")


def _add(runs: Sequence[Path]) -> None:
    """Write the archive anew, with more runs behind those that it has."""
    with tarfile.open(RUNS) as archive:
        before = [(entry.name, _read(archive, entry)) for entry in archive if entry.isfile()]
    first = len({name.partition("/")[0] for name, _ in before})
    added = (
        (f"{_job_of(run)}-{number}/{name}", content)
        for number, run in enumerate(runs, first)
        for name, content in _files(run)
    )
    _write((*before, *added))


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    assert file is not None
    return file.read()


def _write(files: Iterable[tuple[str, bytes]]) -> None:
    with tarfile.open(RUNS, "w:xz", preset=9) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def _is_struck(run: Path) -> bool:
    plan = run / "plan.json"
    return plan.is_file() and bool(json.loads(plan.read_bytes())["ops"])


def _job_of(run: Path) -> str:
    """Return the name of the job, or of the scenario, that a run is of."""
    plan = json.loads((run / "plan.json").read_bytes())
    return re.sub(r"\W+", "_", plan["slug"])


def _files(run: Path) -> Iterator[tuple[str, bytes]]:
    beside = run if (run / "baseline.jsonl").exists() else run.parents[1]  # an audit's have one
    yield "plan.json", _anonymous((run / "plan.json").read_bytes(), run)
    yield "history.jsonl", _anonymous((run / "history.jsonl").read_bytes(), run)
    for baseline in sorted(beside.glob("baseline*.jsonl")):
        yield baseline.name, _anonymous(baseline.read_bytes(), run)


def _anonymous(content: bytes, run: Path) -> bytes:
    """Return what a file holds, as if it had been recorded in /repo, with reports in /reports.

    A history loses the checksums of its lines and the digest of its plan, which are of what was
    written then.
    """
    content = PLAN.sub(b'"plan":null', SUM.sub(b"{", content))
    parts = run.resolve().parts
    kinds = ("suites", "audits", "selftests")
    at = next((n for n, part in enumerate(parts) if part in kinds), len(parts) - 2)
    for path, instead in ((Path(*parts[:at]), "/reports"), (ROOT, "/repo")):
        content = content.replace(str(path).encode(), instead.encode())
    return content


def _command() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--add", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--accept", action="store_true")
    asked = parser.parse_args()
    if asked.keep:
        _keep(asked.keep, asked.most)
    if asked.add:
        _add(asked.add)
    if asked.keep or asked.add or asked.accept:
        lines = [f"  {json.dumps(run)}: {json.dumps(said)}" for run, said in answers().items()]
        ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    else:
        parser.error("say --keep FOLDER, --add RUN or --accept")


if __name__ == "__main__":
    _command()
