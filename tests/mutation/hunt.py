"""Does a test notice when a check is wrong? Mutants of the checks, each against their tests.

A seeded sample of small wrongs in `chaos/check` and `chaos/resume`, each alone in a copy of the
package, in front of the whole of `tests/check` and `tests/resume`. What no test notices is printed
with its place: either it changes nothing that can be seen, or a test is missing.
The working tree is never touched. Tests that name the mutated module run first.

    python -m tests.mutation.hunt [--sample 200] [--seed 1] [--jobs 1] [--only drain.py]
"""

import argparse
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeAlias

from tests.mutation.mutants import Mutant, drawn, mutants

ROOT = Path(__file__).parents[2]
PACKAGES = ("check", "resume")
Fate: TypeAlias = Literal["killed", "timed out", "survived"]

# The whole suite takes some 10 s, on a busy machine minutes; beyond this a mutant does not end.
LIMIT_S = 600
# A loop without end must not take the machine with it.
MEMORY_BYTES = 6 << 30
# A mutant's file is this much newer than its bytecode, so that the cache does not hide it.
NEWER_S = 1000


@dataclass(frozen=True)
class Copy:
    """The package and its tests, in a folder of their own."""

    root: Path

    def put_to_the_test(self, mutant: Mutant) -> Fate:
        """Return what became of a mutant, and leave the copy as it was."""
        file = self.root / mutant.path
        right, dated = file.read_bytes(), file.stat()
        file.write_bytes(mutant.applied(right))
        os.utime(file, ns=(dated.st_atime_ns, dated.st_mtime_ns + NEWER_S * 1_000_000_000))
        try:
            return "survived" if self.passes(file) else "killed"
        except subprocess.TimeoutExpired:
            return "timed out"
        finally:
            file.write_bytes(right)
            os.utime(file, ns=(dated.st_atime_ns, dated.st_mtime_ns))
            shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)

    def passes(self, mutated: Path | None = None) -> bool:
        """Run all tests of the checks, nearest first, and say whether all passed."""
        folders = [self.root / "tests" / package for package in PACKAGES]
        files = sorted(file for folder in folders for file in folder.glob("test_*.py"))
        if mutated is not None:
            files.sort(key=lambda test: not _names(test, mutated))
        options = ["-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=1"]
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        if mutated is not None:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *files],
            cwd=self.root,
            env=environment,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.returncode == 0


def _names(test: Path, mutated: Path) -> bool:
    """Return whether a test imports the module, or names a check that is in it."""
    words = test.read_text(encoding="utf-8")
    checks = re.findall(
        r'^[A-Z_]+ = "([a-z-]+)"$', mutated.read_text(encoding="utf-8"), re.MULTILINE
    )
    return f"chaos.{mutated.parent.name}.{mutated.stem} " in words or any(
        f'"{each}"' in words for each in checks
    )


@contextmanager
def copies(count: int) -> Iterator[list[Copy]]:
    """Make copies that pass their tests as they are; their bytecode is warm then."""
    with tempfile.TemporaryDirectory(prefix="chaos-mutants-") as folder:
        made = []
        for number in range(count):
            copy = Copy(Path(folder, str(number)))
            for part in ("chaos", "tests"):  # tests of the checks use what other tests make
                shutil.copytree(ROOT / part, copy.root / part)
            shutil.copy2(ROOT / "pyproject.toml", copy.root)
            if not copy.passes():
                raise SystemExit("chaos: the tests fail without any mutant: mend it first")
            made.append(copy)
        yield made


def fates(sample: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, Fate]]:
    """Put mutants to the test, so many side by side, and give their fates in order."""
    free: SimpleQueue[Copy] = SimpleQueue()

    def one(mutant: Mutant) -> tuple[Mutant, Fate]:
        copy = free.get()
        try:
            return mutant, copy.put_to_the_test(mutant)
        finally:
            free.put(copy)

    with copies(jobs) as made, ThreadPoolExecutor(jobs) as pool:
        for copy in made:
            free.put(copy)
        yield from pool.map(one, sample)


def wilson(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95% interval of a share, after Wilson (1927): honest near 0 and 1."""
    share, weight = hits / of, z * z / of
    middle = share + weight / 2
    spread = z * math.sqrt(share * (1 - share) / of + weight / of / 4)
    return (middle - spread) / (1 + weight), (middle + spread) / (1 + weight)


def population(only: str) -> list[Mutant]:
    """Return every mutant of the checks whose path holds some words."""
    files = sorted(f for name in PACKAGES for f in (ROOT / "chaos" / name).glob("*.py"))
    paths = [(str(file.relative_to(ROOT)), file) for file in files]
    return [m for path, file in paths if only in path for m in mutants(path, file.read_bytes())]


def main() -> None:
    """Draw, hunt, and print what survived and the score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many side by side")
    parser.add_argument("--only", default="", help="files whose path holds this")
    asked = parser.parse_args()
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    every = population(asked.only)
    sample = drawn(every, asked.sample, asked.seed)
    if not sample:
        raise SystemExit(f"chaos: no file of {PACKAGES} holds {asked.only!r} in its path")
    _say(f"{len(sample)} of {len(every)} mutants of {' and '.join(PACKAGES)}, seed {asked.seed}")
    counts: Counter[Fate] = Counter()
    for mutant, fate in fates(sample, asked.jobs):
        counts[fate] += 1
        if fate == "survived":
            _say(f"  {mutant}")
    found = counts["killed"] + counts["timed out"]
    low, high = wilson(found, len(sample))
    _say(", ".join(f"{counts[fate]} {fate}" for fate in ("killed", "timed out", "survived")))
    _say(f"score {found / len(sample):.1%}, 95% interval {low:.1%} to {high:.1%}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
