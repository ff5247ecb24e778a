"""Hypothesis without deadlines, as a slow example on a noisy machine is no defect."""

from pathlib import Path

import pytest
from hypothesis import settings

collect_ignore_glob = [
    "*.chaos.yaml"
]  # tests use these files themselves; pytest is not to run them

settings.register_profile("chaos", deadline=None, max_examples=30)
settings.register_profile("nightly", deadline=None, max_examples=300)
settings.load_profile("chaos")
TESTS = Path(__file__).parent

# Folders whose tests start processes. Begun last, one of their files would still run when the
# other processes of `pytest -n` have nothing left to do.
LONG = {
    "campaigns",
    "documents",
    "extensions/lab/selftest",
    "extensions/preflight",
    "extensions/pytest_plugin",
    "forked",
    "other_packages",
    "torchrun",
    "python",
}

EMBEDDED = {"forked"}  # folders of tests that start workers without Ray's processes

# Whole audits, simulated fleets and other programs: half of the time of what trains no job.
SLOW = {
    "audit": ("audit", "audit_by_the_clock", "audit_on_ray", "baseline_runs", "chains", "command"),
    "extensions/preflight": (
        "answer",
        "market_doubts",
        "compression_foretold",
        "forecast_reference",
        "forecast_simulated",
        "render_texts",
        "verdict",
    ),
    "other_packages": ("registry_unusable",),
    "browser": ("chromium_pages",),
    "cli": ("streams",),
    "meta": ("faults", "gauges", "screen_consoles", "worked_example_checks"),
    "report": ("chart", "html"),
    "run": ("held_folders",),
    "extensions/lab/selftest": ("draw",),
    "mutation": ("mutants",),
}


def _find_folder(item: pytest.Item) -> str:
    folder = item.path.parent
    return folder.relative_to(TESTS).as_posix() if folder.is_relative_to(TESTS) else ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long first, leave the order as it is otherwise, and mark whole files."""
    for item in items:
        folder = _find_folder(item)
        if folder in EMBEDDED:
            item.add_marker(pytest.mark.embedded)
        if item.path.stem.removeprefix("test_") in SLOW.get(folder, ()):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _find_folder(item) not in LONG)
