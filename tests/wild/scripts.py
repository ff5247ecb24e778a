"""The table of public scripts: where each is from, how it is started, and what is true of it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

TABLES = {
    name: Path(__file__).with_name(file)
    for name, file in (
        ("ray", "scripts.toml"),
        ("torchrun", "torchrun.toml"),
        ("resuming", "resuming.toml"),
    )
}


@dataclass(frozen=True)
class Script:
    """One public script.

    `cut` says where the file is not the one published. `truth` is what reading
    it shows, `answers` those that would be true of it. `beside` names files of the
    script's folder that it reads from the folder that it is started in, `options` those
    of `chaos audit` that say how it is started.
    """

    number: int
    script: str
    repository: str
    commit: str
    path: str
    truth: str
    answers: tuple[str, ...]
    cut: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    standins: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def scripts(text: str) -> tuple[Script, ...]:
    """Return the table's rows, in its order; `ValueError` where one cannot be read."""
    return tuple(_script(row) for row in tomllib.loads(text)["scripts"])


def chosen(rows: Sequence[Script], only: str) -> tuple[Script, ...]:
    """Return the rows whose numbers are listed (`6,19`), or all of them for an empty list."""
    numbers = {int(number) for number in only.split(",") if number.strip()}
    unknown = numbers - {row.number for row in rows}
    if unknown:
        raise ValueError(f"the table has no script {', '.join(map(str, sorted(unknown)))}")
    return tuple(row for row in rows if not numbers or row.number in numbers)


def _script(row: dict[str, Any]) -> Script:
    known = {part.name for part in fields(Script)}
    label = f"script {row.get('number', '?')}"
    if unknown := sorted(row.keys() - known):
        raise ValueError(f"{label}: {', '.join(unknown)} is no field of a script")
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    try:
        return Script(**{**row, **lists})
    except TypeError as error:
        raise ValueError(f"{label}: {error}") from error
