"""A guarded job of Ray Train, killed for real: Ray starts it again, and no harness is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.incident import build_scenario
from chaos.extensions.guard.records import RestartAnswer
from chaos.extensions.guard.report import load_judged_restarts
from tests.ray.command import ROOT, chaos

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

JOB = ROOT / "tests/ray/jobs/guarded.py"


def found(restart: RestartAnswer) -> list[tuple[str, str, str | None]]:
    return [(finding.level, finding.kind, finding.group) for finding in restart.findings]


SCHEDULE = 8, [("mismatch", "state", "schedule")]
ANEW = None, [("mismatch", "began-anew", None)]


@pytest.mark.parametrize(
    ("kills", "told", "place"),
    [
        ("12", [ANEW], "{epoch: 1, step: 4, rank: 1}"),
        pytest.param(
            *("12 21", [SCHEDULE, ANEW], "{epoch: 2, step: 5, rank: 1}"), marks=pytest.mark.nightly
        ),
    ],
)
def test_what_ray_gave_and_a_job_did_not_take_is_a_mismatch_and_a_scenario_fails_for_it(
    kills: str, told: list[object], place: str, tmp_path: Path
) -> None:
    (tmp_path / "KILL_AT").write_text(kills)
    guard = tmp_path / "guard"
    env = {"RAY_TRAIN_CALLBACKS": "chaos.extensions.guard.RayCallback", "CHAOS_GUARD": str(guard)}
    env |= {"STORAGE": str(tmp_path), "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}

    subprocess.run([sys.executable, str(JOB)], cwd=tmp_path, env=os.environ | env, check=True)

    folder = GuardFolder(str(guard))
    of_rank_0 = [one for one in load_judged_restarts(folder) if one.rank == 0]
    assert [(one.step, found(one)) for one in of_rank_0] == told
    (tmp_path / "KILL_AT").unlink()
    text = build_scenario(folder).replace("job:\n", f"job:\n  env: {{STORAGE: {tmp_path}}}\n")
    assert f"at: {place}" in text
    scenario = tmp_path / "incident.chaos.yaml"
    scenario.write_text(text)
    again = chaos("run", scenario, "--backend", "fork", reports=tmp_path / "reports")
    assert (again.code, "schedule" in again.output) == (1, True), again.output
