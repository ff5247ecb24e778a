"""This machine as its own platform."""

from chaos.extensions.cluster.reclaim.connect import build_reclaimer
from chaos.extensions.cluster.reclaim.local import LocalProcesses


def test_this_machine_needs_no_client() -> None:
    assert isinstance(build_reclaimer("local"), LocalProcesses)
