"""The paths of a job's files, as they are written: what lies below what, and on a node."""

import re

SESSION = ".session"  # of a forked run's storage
# The temporary folder of an emulated node, see `NodeDisk`, and Ray's session, of which each node
# has one: a worker's working directory lies in it (2.60: `StorageContext.local_working_directory`).
_NODES = re.compile(rf"/nodes/[^/]+/tmp/|/chaos-[^/]+\.held/[^/]+/|/storage/{re.escape(SESSION)}/")
# A name that Python's `tempfile` draws: no later process can find such a file by it.
TEMPFILE_NAME = re.compile(r"/tmp[a-z0-9_]{8}(?=[/.]|$)")  # noqa: S108 - a pattern

# The name of a file that is called after a digest of its content, or after an id.
NAME_BY_CONTENT = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{32,}(?![0-9a-fA-F])")


def is_node_path(path: str) -> bool:
    """Return whether a path is a folder that each emulated node has of its own, or lies in it."""
    return _NODES.search(f"{path}/") is not None


def strip_node(path: str) -> str:
    """Return a path in a folder of one node as it is in that of any."""
    match = _NODES.search(path)
    return path if match is None else f"/{path[match.end() :]}"


def is_in_folder(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
