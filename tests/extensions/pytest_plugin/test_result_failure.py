"""What a test that could not be run is to pytest."""

import pytest

from chaos.errors import HarnessError, JobError, UnmetNeedError
from chaos.extensions.pytest_plugin.result import build_run_error


def test_only_what_the_environment_lacks_is_a_skip() -> None:
    assert isinstance(build_run_error(UnmetNeedError("needs S3")), pytest.skip.Exception)
    assert not isinstance(build_run_error(JobError("fails")), pytest.skip.Exception)
    assert not isinstance(build_run_error(HarnessError("broke")), pytest.skip.Exception)
