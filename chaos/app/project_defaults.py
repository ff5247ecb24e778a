"""The defaults that a project and the environment give the functions for Python."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from chaos import settings

PathLike: TypeAlias = str | os.PathLike[str]


def merge_project_defaults(names: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, and of `names` those that the project has a default for.

    None is as if it were left out. CHAOS_REPORTS_DIR comes before the project's reports.
    """
    defaults = settings.load_defaults(["python"])["python"]
    if folder := os.environ.get(settings.REPORTS_ENV):
        defaults = {**defaults, "reports": folder}
    given_options = {name: value for name, value in options.items() if value is not None}
    return {name: defaults[name] for name in names if name in defaults} | given_options
