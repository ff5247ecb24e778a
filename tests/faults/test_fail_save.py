"""A save counts as failed where the rank has raised in it."""

import pytest

from chaos.faults.fail_save import FailSave
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


@pytest.mark.parametrize(("obeys", "status"), [(True, "ok"), (False, "info")])
def test_a_save_has_failed_once_the_rank_has_raised(
    release: Release, *, obeys: bool, status: str
) -> None:
    assert FailSave().inject(FakeWorld(obeys=obeys), RANK_1, release).status == status
