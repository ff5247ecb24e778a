"""What each check says of a run by itself: the results of the run have not decided yet."""

from chaos.check.analysis import RunAnalysis
from chaos.check.external_checks import ExternalChecks
from chaos.check.judge import NO_OTHERS, build_verdict, run_checks
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict


def judge_each(
    plan: Plan,
    history: History,
    baseline: History | None = None,
    others: ExternalChecks = NO_OTHERS,
) -> Verdict:
    """Return the verdict as it would be if every check were a judge of its own."""
    analysis = RunAnalysis(plan, history, baseline)
    return build_verdict(analysis, run_checks(analysis, others))
