"""The header of a script for `sbatch`: the options that it asks Slurm for, with their lines."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_HEADER = re.compile(r"#SBATCH\s+([^#]*)")
_SHORT = {
    "-A": "--account",
    "-a": "--array",
    "-b": "--begin",
    "-B": "--extra-node-info",
    "-c": "--cpus-per-task",
    "-C": "--constraint",
    "-e": "--error",
    "-F": "--nodefile",
    "-G": "--gpus",
    "-H": "--hold",
    "-L": "--licenses",
    "-M": "--clusters",
    "-N": "--nodes",
    "-w": "--nodelist",
    "-W": "--wait",
    "-x": "--exclude",
    "-t": "--time",
    "-n": "--ntasks",
    "-o": "--output",
    "-p": "--partition",
    "-q": "--qos",
}
_HEAD = 4096  # bytes, in which the first of its options is


class Option(NamedTuple):
    """The value of an option, and its line."""

    value: str
    line: int


def options_in(text: str) -> Mapping[str, Option]:
    """Return the options of a header by their long names, the last of each."""
    return dict(_options(text))


def options_of(script: Path) -> Mapping[str, Option]:
    """Return the options in the header of a script; raises `OSError`."""
    return options_in(script.read_text(encoding="utf-8", errors="replace"))


def is_for_sbatch(script: Path) -> bool:
    """Return whether a file is a script with options for sbatch; raises `OSError`."""
    with script.open("rb") as file:
        head = file.read(_HEAD)
    return head.startswith(b"#!") and b"\n#SBATCH" in head


def nodes_in(text: str) -> int:
    """Return the number of nodes that a header asks for; one where it names none."""
    least = options_in(text).get("--nodes", Option("", 0)).value.partition("-")[0]
    return max(1, int(least)) if least.isdigit() else 1


def tasks_per_node(given: Mapping[str, Option], nodes: int) -> int:
    """Return the number of tasks on a node that a header asks for; one where it says nothing."""
    for name, share in (("--ntasks-per-node", 1), ("--ntasks", nodes)):
        if name in given and given[name].value.isdigit():
            return max(1, -(-int(given[name].value) // share))
    return 1


def _options(text: str) -> Iterator[tuple[str, Option]]:
    """Yield the options of a header, several of a line too: `-N4 -t 1:00`, `--nodes=4 -q a`."""
    for number, line in enumerate(text.splitlines(), 1):
        found = _HEADER.match(line.strip())
        words = _words(found[1]) if found is not None else []
        while words:
            name, sign, value = words.pop(0).partition("=")
            if not name.startswith("-"):
                continue
            if not name.startswith("--") and len(name) > len("-N"):
                name, value = name[:2], name[2:]
            elif not sign and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield _SHORT.get(name, name), Option(value.strip("\"'"), number)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark stands alone
        return text.split()
