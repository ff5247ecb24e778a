"""The marks and groups of the tests of the plugin."""

import pytest

from chaos.model.plan import Plan
from chaos.pytest_plugin.keys import GROUP
from chaos.pytest_plugin.runs import group_of
from chaos.pytest_plugin.spread import RAY_GROUP, keep_together


def tag(item: pytest.Item, plan: Plan) -> None:
    """Mark a test for `-m chaos`, `-k kill_worker`, and the group of xdist that it shares."""
    item.add_marker("chaos")
    item.extra_keyword_matches.update(op.kind for op in plan.ops)
    item.stash[GROUP] = group_of(plan)
    keep_together(item, RAY_GROUP if plan.backend == "ray" else group_of(plan))
