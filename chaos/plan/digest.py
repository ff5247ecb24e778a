"""The digest that plans with equal baselines share."""

import hashlib
import json
from collections.abc import Mapping

from chaos.model.plan import Plan


def baseline_digest(plan: Plan, *, code: Mapping[str, str], versions: Mapping[str, str]) -> str:
    """Return 16 hex digits that plans share if their jobs do the same without faults.

    So nothing of faults, expectations or limits is in it, and not the seed: it draws our choices,
    never the job's. `code` holds a digest per file, `versions` those of the job's environment.
    """
    decisive = {
        "plan": plan.model_dump(
            mode="json",
            include={"backend", "cwd", "job", "shape", "watch"},
            # Without a fault no retry budget is drawn on, and no node is taken.
            exclude={"job": {"failure"}, "shape": {"reclaim_by"}},
        ),
        "code": dict(code),
        "versions": dict(versions),
    }
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
