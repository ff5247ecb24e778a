"""The first fault comes under the script's own retries."""

from pathlib import Path

from chaos.audit.audit import SiteChoice
from tests.audit.backend import FakeBackend, audit_of

FEW = SiteChoice(limit=20)
NONE = {"max_failures": 0}


def test_the_first_fault_comes_under_the_scripts_own_retries(tmp_path: Path) -> None:
    backend = FakeBackend(settings=NONE)
    audit_of(tmp_path, backend, choice=FEW).run()
    given = [plan.job.failure.max_failures for plan in backend.plans if plan.job.failure]

    assert given[0] == 0
    assert min(given[1:]) == 1
