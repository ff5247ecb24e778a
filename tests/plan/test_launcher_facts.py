"""Every field that a launcher's facts name is one."""

import pytest

from chaos.audit.site_category import FAULT_KINDS, SITE_CATEGORIES
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.scenario import ClusterShape, Job


@pytest.mark.parametrize("facts", LAUNCHER_FACTS.values(), ids=LAUNCHER_FACTS)
def test_every_field_that_a_row_names_is_one(facts: LauncherPolicy) -> None:
    assert set(facts.fields.missing_job) <= set(Job.model_fields)
    assert set(facts.fields.cluster) <= set(ClusterShape.model_fields)
    assert {facts.sites.initial, *facts.sites.unavailable, *facts.sites.unrestarted} <= {
        *SITE_CATEGORIES
    }
    assert {*facts.sites.kinds, *facts.sites.kinds.values()} <= {*FAULT_KINDS}
    assert set(facts.retries.budgets) <= set(facts.retries.settings) == {"failures", "preemptions"}
