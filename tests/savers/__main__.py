"""The savers of real libraries: which of them survive a death at every operation of a save.

    python -m tests.savers [NAME ...]

Each job is audited inside its saves alone: once at every operation, then more often. The
environment needs the job's library (`.venv-field`, which `make field` makes).
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

RUNS = "12"  # one for each of the operations that these savers have
JOBS = Path(__file__).parent / "jobs"


class Saver(NamedTuple):
    """A job of a saver, and the package that is tried."""

    script: str
    args: tuple[str, ...]
    package: str


SAVERS = {
    "lightning-last": Saver("lightning_saver", ("copy",), "lightning"),
    "lightning-link": Saver("lightning_saver", ("link",), "lightning"),
    "accelerate": Saver("accelerate_saver", (), "accelerate"),
    "transformers": Saver("transformers_saver", (), "transformers"),
    "dcp": Saver("dcp_saver", ("sync",), "torch"),
    "dcp-async": Saver("dcp_saver", ("async",), "torch"),
    **{
        f"{library}-{how}": Saver("plain_saver", (library, how), package)
        for library, package in (
            ("torch.save", "torch"),
            ("np.savez", "numpy"),
            ("safetensors", "safetensors"),
            ("h5py", "h5py"),
        )
        for how in ("in-place", "renamed")
    },
    "sqlite3": Saver("plain_saver", ("sqlite3", "in-place"), "torch"),
}


def audited(saver: Saver) -> dict[str, Any]:
    """Return the card of an audit of a saver's job."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "chaos", "audit", str(JOBS / f"{saver.script}.py")]
        words += ["--launcher", "torchrun", "--workers", "2", "--no-confirm", "--retries", "9"]
        words += ["--places", "inside a save", "--max-runs", RUNS, "--one-by-one", "--jobs", "1"]
        words += ["--reports", folder, "--format", "json", "--", *saver.args]
        work = Path(folder) / "work"
        work.mkdir()
        done = subprocess.run(words, cwd=work, capture_output=True, text=True, check=False)
        if not done.stdout.startswith("{"):
            raise SystemExit(done.stderr[-2000:])
        card: dict[str, Any] = json.loads(done.stdout)
        return card


def main(names: list[str]) -> None:
    for name in names or SAVERS:
        saver = SAVERS[name]
        card = audited(saver)
        tried = sum(not run["is_combined"] for run in card["runs"])
        wrong = card["verdict"]["broken"]
        print(f"{name} ({saver.package} {version(saver.package)}): {wrong} of {tried} places wrong")
        for step in card["save_steps"]:
            print(f"  {step['name']}: {step['wrong']} of {step['tried']}")
        for finding in card["findings"]:
            print(f"  {finding['smallest']['headline']}")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
