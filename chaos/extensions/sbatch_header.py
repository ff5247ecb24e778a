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


class SbatchOption(NamedTuple):
    """The value of an option, and its line."""

    value: str
    line: int


def parse_options(text: str) -> Mapping[str, SbatchOption]:
    """Return the options of a header by their long names, the last of each."""
    return dict(_iterate_options(text))


def load_options(script: Path) -> Mapping[str, SbatchOption]:
    """Return the options in the header of a script; raises `OSError`."""
    return parse_options(script.read_text(encoding="utf-8", errors="replace"))


def is_sbatch_script(script: Path) -> bool:
    """Return whether a file is a script with options for sbatch; raises `OSError`."""
    with script.open("rb") as file:
        head = file.read(_HEAD)
    return head.startswith(b"#!") and b"\n#SBATCH" in head


def count_nodes(text: str) -> int:
    """Return the number of nodes that a header asks for; one where it names none."""
    number = parse_options(text).get("--nodes", SbatchOption("", 0)).value.partition("-")[0]
    return max(1, int(number)) if number.isdigit() else 1


def count_tasks(header: Mapping[str, SbatchOption], nodes: int) -> int:
    """Return the number of tasks on a node that a header asks for; one where it says nothing."""
    for name, share in (("--ntasks-per-node", 1), ("--ntasks", nodes)):
        if name in header and header[name].value.isdigit():
            return max(1, -(-int(header[name].value) // share))
    return 1


def _iterate_options(text: str) -> Iterator[tuple[str, SbatchOption]]:
    """Yield the options of a header, several of a line too: `-N4 -t 1:00`, `--nodes=4 -q a`."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _HEADER.match(line.strip())
        words = _split_words(match[1]) if match is not None else []
        while words:
            name, sign, value = words.pop(0).partition("=")
            if not name.startswith("-"):
                continue
            if not name.startswith("--") and len(name) > len("-N"):
                name, value = name[:2], name[2:]
            elif not sign and words and not words[0].startswith("-"):
                value = words.pop(0)
            yield _SHORT.get(name, name), SbatchOption(value.strip("\"'"), number)


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark stands alone
        return text.split()
