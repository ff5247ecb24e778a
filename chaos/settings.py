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


def parse_seconds(text: str | float) -> float:
    """Return a time such as 90s, 5m or 1h in seconds; a number alone is in seconds.

    Raises `ValueError` for what is none.
    """
    match = _TIME.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"'{text}' is not a time such as 90s, 5m or 1h")
    return float(match[1]) * _UNITS_S[match[2] or ""]


def load_defaults(commands: Iterable[str]) -> dict[str, Any]:
    """Return the defaults of every command; raise for an unknown key or a wrong value."""
    working_folder = Path.cwd()
    files = (folder / "pyproject.toml" for folder in (working_folder, *working_folder.parents))
    tables = ((file, table) for file in files if (table := _read_table(file)) is not None)
    file, table = next(tables, (working_folder, {}))
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            close_keys = difflib.get_close_matches(key, KEYS, n=1, cutoff=0)
            hint = f"Did you mean {close_keys[0]}? The keys are {', '.join(KEYS)}."
            raise ScenarioError(file, _find_key_line(file, key), f"unknown key '{key}'", hint)
        description, is_valid = KEYS[key]
        if not is_valid(value):
            raise ScenarioError(
                file, _find_key_line(file, key), f"{key} must be {description}, got {value!r}"
            )
        values[key.replace("-", "_")] = file.parent / value if key == "reports" else value
    return dict.fromkeys(commands, values)


def _is_backend(value: object) -> bool:
    # Every project's pytest reads this module, and the model takes half a second to import.
    from chaos.model.plan import BackendName  # noqa: PLC0415

    return value in get_args(BackendName)


def _is_sampling(value: object) -> bool:
    from chaos.model.expect import Sampling  # noqa: PLC0415 - likewise

    return value in get_args(Sampling)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, int | float | str) and parse_seconds(value) >= 0
    except ValueError:
        return False


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "backend": ("ray or fork", _is_backend),
    "reports": ("a folder", lambda value: isinstance(value, str)),
    "seed": ("a number from 0", _is_count),
    "exclude": ("a list of patterns", _is_text_list),
    "keep-storage": ("true or false", lambda value: isinstance(value, bool)),
    "time-limit": ("a time such as 90s or 5m", _is_time),
    "retries": ("a number from 1", lambda value: _is_count(value) and value > 0),
    "accept": ("a list of severities", _is_text_list),
    "sampling": ("exactly_once, at_least_once or resampled", _is_sampling),
    "tolerance": ("a number", lambda value: isinstance(value, int | float)),
}


def _read_table(file: Path) -> dict[str, Any] | None:
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


def _find_key_line(file: Path, key: str) -> int:
    """Return the line of a key, in the table or in full (`tool.chaos.key`)."""
    is_inside = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("["):
            is_inside = line.strip().strip("[] ") == "tool.chaos"
        match = re.match(r"""\s*["']?([\w-]+)["']?\s*=""", line)
        if is_inside and match and match[1] == key:
            return number
    return 1
