"""The corpus audited with places that share runs and one by one: every difference in a finding.

    python -m tests.bench.both_ways FILE [SEED]

An audit of each job and kind is a line of FILE. A second start goes on after the last line, so
that hours of audits can be broken off, and the differences are printed of all that is there.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from chaos.extensions.lab.selftest.corpus import CorpusJob, load_corpus

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"
RUNS = "18"
WAYS = {"together": (), "one by one": ("--one-by-one",)}
Row: TypeAlias = dict[str, Any]


def audited(job: CorpusJob, way: str, seed: str) -> Row:
    """Return what an audit of a job says: its verdict, and each finding with its severity."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "chaos", "audit", str(job.script(CORPUS)), *WAYS[way]]
        words += ["--launcher", job.launcher, "--workers", str(job.workers), "--no-confirm"]
        words += ["--retries", str(job.retries)] if job.retries is not None else []
        words += ["--restart", job.restart] if job.restart is not None else []
        words += [word for each in job.tier.items() for word in ("--tier", "=".join(each))]
        words += ["--seed", seed, "--max-runs", RUNS, "--jobs", "1"]
        words += ["--reports", folder, "--format", "json", "--time-limit", "30m"]
        words += ["--", *job.args] if job.args else []
        done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    row: Row = {"job": job.name, "way": way, "seed": seed, "rc": done.returncode}
    try:
        card = json.loads(done.stdout)
    except ValueError:
        return {**row, "sentence": done.stderr.decode(errors="replace")[-500:], "findings": []}
    findings = [
        [each["defect"]["check"], sorted(each["defect"]["parts"]), each["defect"]["severity"]]
        for each in card["findings"]
    ]
    told = {"sentence": card["verdict"]["sentence"], "findings": findings}
    proofs = [each["proof"] for each in card["findings"]]
    return {**row, **told, "proofs": proofs, "runs": len(card["runs"]), "s": card["seconds"]}


def differences(rows: list[Row]) -> Iterator[str]:
    """Yield a line for each job whose two audits do not say the same."""
    ways: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        ways.setdefault((row["job"], row["seed"]), {})[row["way"]] = row
    both = {key: found for key, found in ways.items() if len(found) == len(WAYS)}
    for (name, seed), found in both.items():
        one, other = (found[way] for way in WAYS)
        if one["rc"] != other["rc"] or sorted(one["findings"]) != sorted(other["findings"]):
            yield f"{name}, seed {seed}:"
            yield from (
                f"  {way}: {found[way]['findings']} {found[way]['sentence']}" for way in WAYS
            )
    yield f"{len(both)} jobs audited in both ways"


def main(file: Path, seed: str = "0") -> None:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows: list[Row] = [json.loads(line) for line in lines]
    there = {(row["job"], row["way"], row["seed"]) for row in rows}
    for job in load_corpus(CORPUS):
        for way in WAYS:
            if not job.missing and (job.name, way, seed) not in there:
                rows.append(audited(job, way, seed))
                with file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(differences(rows)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
