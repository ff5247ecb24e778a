"""A job that does not even run alone is its owner's to put right: said clearly, nothing left."""

import re
from pathlib import Path

import pytest

from tests.ray.command import Ran, chaos, strays

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(600)]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return chaos("run", HERE / "bad", reports=tmp_path_factory.mktemp("bad"))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("never_fits", "it ended without calling trainer.fit()"),
        ("does_not_import", "ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("raises", "ValueError: the data of epoch 1 is missing"),
        ("insists_on_local", "chaos runs it on a cluster of its own"),
    ],
)
def test_the_reason_stands_at_the_line_of_the_job(bad: Ran, file: str, reason: str) -> None:
    message = rf"{file}\.chaos\.yaml:3: the job .* fails without any fault: .*{re.escape(reason)}"

    assert re.search(message, bad.output), bad.output


def test_a_refusal_stands_there_and_does_not_say_that_the_job_fails(bad: Ran) -> None:
    found = re.search(r"asks_for_too_much\.chaos\.yaml:3: (.*cannot hold them)", bad.output)

    assert found is not None, bad.output
    assert "fails without any fault" not in found[1]


def test_a_job_that_cannot_be_tested_is_a_usage_error(bad: Ran) -> None:
    assert bad.code == 3, bad.output
    assert strays() == []
