"""The header of a script for sbatch, beside the Slurm that the job is to run on."""

from collections.abc import Mapping
from pathlib import Path

from chaos.errors import JobError
from chaos.run.sbatch_header import Option

# Options with which no run is one job that chaos can follow, on whatever Slurm.
_NEVER = {
    "--clusters": "the job would go to another cluster than the one that was named",
    "--wait": "sbatch would return only at the job's end",
    "--test-only": "nothing would be submitted",
    "--uid": "the job's processes would be another user's, whom chaos does not answer",
    "--gid": "the job's processes would be another group's",
}
_ON_EXISTING = {**_NEVER, "--array": "an array is several jobs, and chaos follows one"}


def refuse_on_existing(script: Path, given: Mapping[str, Option]) -> None:
    """Raise `JobError` for an option of a header with which chaos follows no job there."""
    _refuse(script, given, _ON_EXISTING, "Take the line out of a copy of the script.")


def _refuse(script: Path, given: Mapping[str, Option], table: Mapping[str, str], hint: str) -> None:
    for name, option in given.items():
        if name in table:
            text = f"{name}={option.value}" if option.value else name
            raise JobError(f"{text}: {table[name]}", hint, place=f"{script}:{option.line}")
