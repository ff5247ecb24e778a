"""Does a finding hold on another backend as well?"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from chaos.audit.finding import Confirmation
from chaos.errors import UsageError
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario

# Runs a reproduction's plan elsewhere; may raise `UsageError` where it cannot be run there.
Confirm: TypeAlias = Callable[[Plan], Verdict]


def confirmation(file: Path, confirm: Confirm, *, seed: int, cwd: Path) -> Confirmation:
    """Run a finding's reproduction, read from its file as anybody would, and give what it shows."""
    plan = make_plan(load_scenario(file), file=file, seed=seed, cwd=cwd)
    try:
        verdict = confirm(plan)
    except UsageError as error:  # one that cannot be run there says nothing of the others
        return Confirmation(state="open", headline=str(error))
    if verdict.validity == "invalid":
        is_same = verdict.as_expected
        return Confirmation(
            state="confirmed" if is_same else "otherwise", headline=verdict.headline
        )
    state = "refuted" if verdict.validity == "valid" else "open"
    return Confirmation(state=state, headline=verdict.headline)
