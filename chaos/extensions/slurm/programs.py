"""The programs of a Slurm, and whether this machine has them."""

from collections.abc import Sequence

from chaos.run.machine import find_missing_programs

# The commands of any Slurm, the programs of a local one, and what installs them.
COMMANDS = ("sbatch", "scontrol", "scancel", "squeue")
PROGRAMS = ("munged", "slurmctld", "slurmd", *COMMANDS)
INSTALLED_BY = "apt-get install slurm-wlm munge"


def find_missing_slurm(programs: Sequence[str] = PROGRAMS) -> tuple[str, ...]:
    """Return the programs of a Slurm, a local one's if none are named, that are not installed."""
    return find_missing_programs(programs)
