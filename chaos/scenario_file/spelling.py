"""How keys and values are spelled in messages."""

from collections.abc import Sequence
from difflib import get_close_matches

from chaos.scenario_file.scalar import shortened
from chaos.scenario_file.source import Plain


def quoted(value: Plain) -> str:
    """Give a value as the file has it: text in quotes, a structure by its kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return str(value)


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Give the known word that was probably meant, whatever the case and the dashes."""
    by_shape = {name.lower(): name for name in known}
    found = get_close_matches(word.lower().replace("-", "_"), by_shape, n=1)
    return by_shape[found[0]] if found else None
