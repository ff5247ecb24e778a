"""Hypothesis without deadlines, as a slow example on a noisy machine is no defect."""

import pytest
from hypothesis import settings

collect_ignore_glob = [
    "*.chaos.yaml"
]  # tests use these files themselves; pytest is not to run them

settings.register_profile("chaos", deadline=None, max_examples=30)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile("chaos")

# Folders whose tests start processes. Begun last, one of their files would still run when the
# other processes of `pytest -n` have nothing left to do.
LONG = {"campaigns", "documents", "extensions", "fork", "preflight", "pytest_plugin", "selftest"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long first, leave the order as it is otherwise, and mark a whole folder."""
    for item in items:
        if item.path.parent.name == "fork":
            item.add_marker(pytest.mark.embedded)
    items.sort(key=lambda item: item.path.parent.name not in LONG)
