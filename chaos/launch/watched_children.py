"""The environment in which each Python that a job starts watches itself; no imports of chaos."""

import os
from collections.abc import Mapping
from pathlib import Path

# In PYTHONPATH: each Python that a process of the job starts watches itself (`launch.child`).
SITE = str(Path(__file__).parent / "python" / "site")


def with_watched_children(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which each Python that is started watches itself.

    It is that of a job's processes, under every launcher and the guard, and of none of chaos's own.
    """
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [SITE, env.get("PYTHONPATH")]))}
