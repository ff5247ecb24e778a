"""Print the corpus's jobs of a field report or with a library of its own: `--only NAME …`."""

import sys
from pathlib import Path

from chaos.extensions.lab.selftest.corpus import load_corpus

CORPUS = Path(__file__).parents[1] / "corpus"


def main() -> None:
    """Print the options of `chaos selftest --corpus tests/corpus`."""
    options = [f"--only {job.name}" for job in load_corpus(CORPUS) if job.source or job.needs]
    sys.stdout.write(" ".join(options) + "\n")


if __name__ == "__main__":
    main()
