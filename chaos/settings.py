"""The table `[tool.chaos]` of pyproject.toml: other defaults for options, also of pytest.

    [tool.chaos]
    backend = "fork"
    reports = "build/chaos"
    exclude = ["scenarios/slow/*"]
    time-limit = "5m"

The nearest pyproject.toml with that table is read, from the working folder upwards.
An option on the command line overrides it, and so does CHAOS_REPORTS_DIR.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from chaos.errors import ScenarioError

REPORTS_ENV = "CHAOS_REPORTS_DIR"
_UNITS_S = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|min|h|d)?")


def seconds(text: str | float) -> float:
    """Return a time such as 90s, 5m or 1h in seconds; a number alone is in seconds.

    Raises `ValueError` for what is none.
    """
    found = _TIME.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"'{text}' is not a time such as 90s, 5m or 1h")
    return float(found[1]) * _UNITS_S[found[2] or ""]


def defaults(commands: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of every command; raise for an unknown key or a wrong value."""
    here = Path.cwd()
    files = (folder / "pyproject.toml" for folder in (here, *here.parents))
    tables = ((file, table) for file in files if (table := _table(file)) is not None)
    file, table = next(tables, (here, {}))
    found: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0)
            hint = f"Did you mean {near[0]}? The keys are {', '.join(KEYS)}."
            raise ScenarioError(file, _line(file, key), f"unknown key '{key}'", hint)
        wanted, is_good = KEYS[key]
        if not is_good(value):
            raise ScenarioError(file, _line(file, key), f"{key} must be {wanted}, got {value!r}")
        found[key.replace("-", "_")] = file.parent / value if key == "reports" else value
    return dict.fromkeys(commands, found)


def _is_backend(value: object) -> bool:
    # Every project's pytest reads this module, and the model takes half a second to import.
    from chaos.model.plan import BackendName  # noqa: PLC0415

    return value in get_args(BackendName)


def _is_sampling(value: object) -> bool:
    from chaos.model.scenario import Sampling  # noqa: PLC0415 - likewise

    return value in get_args(Sampling)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, int | float | str) and seconds(value) >= 0
    except ValueError:
        return False


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "backend": ("ray or fork", _is_backend),
    "reports": ("a folder", lambda value: isinstance(value, str)),
    "seed": ("a number from 0", _is_count),
    "exclude": ("a list of patterns", _are_texts),
    "keep-storage": ("true or false", lambda value: isinstance(value, bool)),
    "time-limit": ("a time such as 90s or 5m", _is_time),
    "retries": ("a number from 1", lambda value: _is_count(value) and value > 0),
    "accept": ("a list of severities", _are_texts),
    "sampling": ("exactly_once, at_least_once or resampled", _is_sampling),
    "tolerance": ("a number", lambda value: isinstance(value, int | float)),
}


def _table(file: Path) -> dict[str, Any] | None:
    """Return the table, None if there is none; a file without its name is not parsed."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "chaos" not in text:
        return None
    try:
        table = tomllib.loads(text).get("tool", {}).get("chaos")
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise ScenarioError(file, int(line[1]) if line else 1, f"not TOML: {error}") from error
    return table if isinstance(table, dict) else None


def _line(file: Path, key: str) -> int:
    """Return the line of a key, in the table or in full (`tool.chaos.key`)."""
    is_inside = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("["):
            is_inside = line.strip().strip("[] ") == "tool.chaos"
        named = re.match(r"""\s*["']?([\w-]+)["']?\s*=""", line)
        if is_inside and named and named[1] == key:
            return number
    return 1
