"""Slurm's own account of a job: a line for each of its starts, once that has ended.

`jobcomp/filetxt` writes it (Slurm 22.05), which needs no database. `sacct -c -f` reads the same
file. Its times are whole seconds of the local clock.
"""

import re
from datetime import datetime

from chaos.model.event import JobAccounted

_FIELD = re.compile(r"(\w+)=(\S*)")


def accounted(text: str, number: int) -> list[JobAccounted]:
    """Return the starts of a job that have ended, by the lines of `jobcomp/filetxt`, in order."""
    lines = (dict(_FIELD.findall(line)) for line in text.splitlines())
    own = [line for line in lines if line.get("JobId") == str(number) and "ExitCode" in line]
    return [_start(position, line) for position, line in enumerate(own)]


def _start(position: int, line: dict[str, str]) -> JobAccounted:
    code, _, signal = line["ExitCode"].partition(":")
    return JobAccounted(
        start=position,
        state=line["JobState"],
        ran_s=_between(line["StartTime"], line["EndTime"]),
        code=int(code),
        signal=int(signal or 0),
        nodes=line["NodeList"],
    )


def _between(began: str, ended: str) -> float | None:
    try:
        ran = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except ValueError:  # `Unknown`, or `None`: it was never started
        return None
    return ran.total_seconds()
