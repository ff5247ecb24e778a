"""The tables of a run, which are made once."""

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import judge_analysis
from chaos.model.history import Baseline
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 3, 1), Strike(3, 2, 0)))


def test_the_tables_of_a_baseline_are_made_once_and_fit_every_run() -> None:
    first, second = analysis_of(KILLED), analysis_of(TWICE)
    shared = Baseline([KILLED.baseline()])
    told = [RunAnalysis(a.plan, a.history, shared) for a in (first, second, first)]

    verdicts = [judge_analysis(analysis) for analysis in told]

    assert len({id(analysis.reference) for analysis in told}) == 1
    assert verdicts == [judge_analysis(a) for a in (first, second, first)]


def test_tables_are_made_once() -> None:
    analysis = analysis_of(KILLED)

    assert analysis.restarts is analysis.restarts
    assert analysis.run.lineage is analysis.run.lineage
    assert RunAnalysis(analysis.plan, analysis.history).reference is None
