"""Does every epoch end with a checkpoint?"""

from chaos.check.analysis import RunAnalysis
from chaos.check.result import conclude
from chaos.model.event import Committed
from chaos.model.verdict import Anomaly, CheckResult
from chaos.wording import plural

NAME = "every-epoch-saved"
KINDS = {"epoch-not-saved": "An epoch was committed without a checkpoint."}


def check(analysis: RunAnalysis) -> CheckResult:
    """Require that every report that Ray committed carried a checkpoint.

    A report without one is an epoch that a restart trains again. Inconclusive where
    no commit was seen.
    """
    commits = list(analysis.history.select_events(Committed))
    anomalies = [
        Anomaly(
            kind="epoch-not-saved",
            facts={"epoch": commit.epoch},
            message=f"epoch {commit.epoch} was committed without a checkpoint",
            events=(number,),
        )
        for number, commit in commits
        if commit.checkpoint is None
    ]
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(commits),
        summary=f"{plural(len(commits), 'commit')}, each with a checkpoint",
    )
