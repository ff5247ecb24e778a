"""The options that `[tool.chaos]` in pyproject.toml settles, as for the command line."""

import pytest

from chaos.pytest_plugin.keys import Option

_KEYS = {"backend": Option.BACKEND, "reports": Option.REPORT, "keep_storage": Option.KEEP_STORAGE}


def fill_in(config: pytest.Config) -> None:
    """Set the options that the command line leaves out, by `[tool.chaos]` or to their defaults.

    Raises `pytest.UsageError` for a key or a value that is none.
    """
    found = {"backend": "ray", "keep_storage": False, **_table(config)}
    for key, option in _KEYS.items():
        if config.getoption(option.dest) is None and key in found:
            setattr(config.option, option.dest, found[key])


def _table(config: pytest.Config) -> dict[str, object]:
    folder = config.invocation_params.dir
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    # Projects without the table must not pay for an import.
    if not any(
        "tool.chaos" in file.read_text("utf-8", "ignore") for file in files if file.is_file()
    ):
        return {}
    from chaos.errors import ScenarioError
    from chaos.settings import defaults

    try:
        return dict(defaults(["pytest"])["pytest"])
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from error
