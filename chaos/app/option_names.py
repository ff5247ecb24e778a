"""The names that the command line has for the fields of a request."""

#: Those that are no field's name with hyphens: `for` and `continue` are words of Python's.
_OPTIONS = {
    "question": "--for",
    "continues": "--continue",
    "max_faults": "--most-faults",
    "kinds": "--fault",
    "plans": "--random",
    "soak_for": "--soak",
    "replay": "--replay-trace",
}


def describe_option(field: str, value: str = "") -> str:
    """Return the option of a field, with a value if there is one: `--restart command`."""
    name = _OPTIONS.get(field, f"--{field.replace('_', '-')}")
    return f"{name} {value}" if value else name
