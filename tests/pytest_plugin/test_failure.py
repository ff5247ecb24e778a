"""What a test that could not be run is to pytest."""

import pytest

from chaos.errors import HarnessError, JobError, UnmetNeedError
from chaos.pytest_plugin.result import could_not_run


def test_only_what_the_environment_lacks_is_a_skip() -> None:
    assert isinstance(could_not_run(UnmetNeedError("needs S3")), pytest.skip.Exception)
    assert not isinstance(could_not_run(JobError("fails")), pytest.skip.Exception)
    assert not isinstance(could_not_run(HarnessError("broke")), pytest.skip.Exception)
