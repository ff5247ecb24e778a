"""What every test of ours can be selected and grouped by."""

import pytest

from chaos.model.plan import Plan
from chaos.pytest_plugin.keys import GROUP
from chaos.pytest_plugin.runs import group_of


def tag(item: pytest.Item, plan: Plan) -> None:
    """Mark a test: `-m chaos`, `-k kill_worker`, and one xdist group for each warm cluster."""
    item.add_marker("chaos")
    item.extra_keyword_matches.update(op.kind for op in plan.ops)
    item.stash[GROUP] = group_of(plan)
    if item.config.pluginmanager.hasplugin("xdist"):
        item.add_marker(pytest.mark.xdist_group(name=group_of(plan)))
