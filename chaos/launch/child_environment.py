"""The environment in which each Python that a job starts watches itself; no imports of chaos."""

import os
from collections.abc import Mapping
from pathlib import Path

# In PYTHONPATH: each Python that a process of the job starts watches itself (`launch.child`).
SITECUSTOMIZE_FOLDER = str(Path(__file__).parent / "python" / "site")


def add_child_watch(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which each Python that is started watches itself.

    Used for the job's processes, under every launcher and under `chaos guard`; never for chaos's
    own processes.
    """
    return {
        **env,
        "PYTHONPATH": os.pathsep.join(filter(None, [SITECUSTOMIZE_FOLDER, env.get("PYTHONPATH")])),
    }
