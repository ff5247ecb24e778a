"""The share of the corpus's wrong jobs that each group of places shows, and each two groups.

    chaos selftest --corpus tests/corpus --max-runs 18 --jobs 1 --reports FOLDER
    python -m tests.bench.telling FOLDER

The order of an audit's first runs (`chaos.audit.site_category.ORDERS`) is learnt from it.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

from chaos.extensions.lab.selftest.corpus import load_corpus

CORPUS = Path(__file__).parents[2] / "tests/corpus"
FEWEST = 10  # jobs with both groups, below which two are not compared
Shown: TypeAlias = dict[str, bool]  # by group, whether a place of it came out wrong


def shown_by(card: Path) -> tuple[str, Shown]:
    """Return the name of an audit's job, and what each group that it tried has shown."""
    found = json.loads(card.read_bytes())
    shown: Shown = {}
    for row in found["runs"]:
        if not row["is_combined"]:
            shown[row["group"]] = shown.get(row["group"], False) or row["status"] == "fail"
    return Path(found["job"]["script"]).stem, shown


def pairs(jobs: list[Shown]) -> Iterator[tuple[int, int, str, str]]:
    """Yield for two groups the jobs that one of them shows, and those that have both."""
    for one, other in combinations(sorted({group for job in jobs for group in job}), 2):
        both = [job for job in jobs if one in job and other in job]
        if len(both) >= FEWEST:
            yield sum(job[one] or job[other] for job in both), len(both), one, other


def main(folder: Path) -> None:
    wrong = {job.name for job in load_corpus(CORPUS) if job.bug is not None}
    found = dict(shown_by(card) for card in sorted(folder.glob("selftests/**/audit.json")))
    jobs = [shown for name, shown in found.items() if name in wrong and any(shown.values())]
    tried = Counter(group for job in jobs for group in job)
    hits = Counter(group for job in jobs for group, is_shown in job.items() if is_shown)
    for group, of in sorted(tried.items(), key=lambda row: -hits[row[0]] / row[1]):
        print(f"{group}: {hits[group]} of {of}")
    for hit, of, one, other in sorted(pairs(jobs), key=lambda row: -row[0] / row[1]):
        print(f"{one} and {other}: {hit} of {of}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
