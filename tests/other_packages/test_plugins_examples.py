"""The examples of docs/: a fault and a check of another package, as a user would have them.

Where the package is present the command is a process that finds it; here it is absent.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.called import chaos
from tests.other_packages.conftest import Suite, install_examples, run

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(180)]


def verdict(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "verdict.json").read_bytes())
    return found


def result(path: Path, check: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in verdict(path)["results"] if r["check"] == check)
    return found


def test_the_fault_lands_and_is_proved_to_land(suite: Suite) -> None:
    run_of = suite.run_of("alone")

    assert verdict(run_of)["status"] == "pass", suite.done.said
    assert result(run_of, "faults-happened")["summary"] == "rank 0 is alone: 1 peers are gone"
    assert verdict(run_of)["headline"].startswith(
        "The fault kill_peers (KILL) was injected at epoch 1, step 2; the job resumed from check"
    )


def test_the_fault_that_finds_nobody_has_not_landed(suite: Suite) -> None:
    run_of = suite.run_of("nobody")

    assert verdict(run_of)["status"] == "inconclusive"
    assert "did no harm: refused: rank 0 has no peers" in verdict(run_of)["headline"]
    assert suite.done.code == 0, suite.done.said  # and each scenario is as it expects


def test_the_check_is_green_on_a_right_history(suite: Suite) -> None:
    found = result(suite.run_of("alone"), "every-epoch-saved")

    assert found["status"] == "pass"
    assert found["summary"] == "3 commits, each with a checkpoint"
    assert found["package"] == "chaos-example 1.0"


def test_the_check_finds_the_planted_bug_and_is_what_the_scenario_expects(suite: Suite) -> None:
    found = verdict(suite.run_of("guilty"))

    assert found["status"] == "fail"
    assert found["as_expected"]
    assert "epoch 0 was committed without a checkpoint (and 1 more)" in str(found["results"])


def test_a_scenario_names_and_accepts_findings_of_the_check(suite: Suite) -> None:
    accepted = suite.run_of("accepted")

    assert verdict(suite.run_of("named"))["as_expected"]
    assert verdict(accepted)["status"] == "pass", suite.done.said
    assert result(accepted, "every-epoch-saved")["accepted_reasons"] == [
        "every second one is enough"
    ]


def test_the_plan_names_the_package_and_is_read_as_itself(suite: Suite) -> None:
    (op,) = json.loads((suite.run_of("alone") / "plan.json").read_bytes())["ops"]

    assert op["kill_peers"] == {"signal": "KILL"}
    assert op["package"] == "chaos-example 1.0"


def test_a_run_is_judged_again_by_the_same_checks(suite: Suite, tmp_path: Path) -> None:
    again = shutil.copytree(suite.run_of("alone"), tmp_path / "again")

    done = run(tmp_path, "chaos", "rejudge", str(again), packages=suite.packages)

    assert done.code == 0, done.said
    assert verdict(again) == verdict(suite.run_of("alone"))


@pytest.mark.nightly
def test_where_the_package_is_absent_the_run_is_judged_unknown_and_says_so(
    suite: Suite, tmp_path: Path
) -> None:
    again = shutil.copytree(suite.run_of("alone"), tmp_path / "again")

    first, second = (chaos("rejudge", again, folder=tmp_path) for _ in range(2))

    assert first.code == second.code == 2, first.out + first.err
    assert verdict(again)["status"] == "inconclusive"
    assert "kill_peers (of chaos-example 1.0, not installed here)" in verdict(again)["headline"]
    told = result(again, "every-epoch-saved")
    assert told["status"] == "inconclusive"
    assert "is of the package chaos-example 1.0, which is not installed here" in told["summary"]


def test_a_run_with_chaos_own_fault_needs_the_package_for_its_check_alone(
    suite: Suite, tmp_path: Path
) -> None:
    again = shutil.copytree(suite.run_of("own"), tmp_path / "again")

    assert verdict(again)["status"] == "pass", suite.done.said
    assert chaos("rejudge", again, folder=tmp_path).code == 2
    unknown = [r["check"] for r in verdict(again)["results"] if r["status"] == "inconclusive"]
    assert unknown == ["every-epoch-saved"]


def test_a_guilty_run_without_the_check_that_found_it_is_unknown(
    suite: Suite, tmp_path: Path
) -> None:
    again = shutil.copytree(suite.run_of("guilty"), tmp_path / "again")

    assert chaos("rejudge", again, folder=tmp_path).code == 2
    assert verdict(again)["status"] == "inconclusive"


SEVERAL = """
import sys
from chaos.cli.commands import app
for words in (
    "list faults", "list checks", "list kill_peers", "list every-epoch-saved", "list findings",
    "list epoch-not-saved",
):
    app(words.split(), prog_name="chaos", standalone_mode=False)
    print("THE NEXT", flush=True)
"""


def test_faults_and_checks_are_listed_and_explained_with_their_package(
    tmp_path: Path,
) -> None:
    packages = install_examples(tmp_path)
    (tmp_path / "several.py").write_text(SEVERAL)

    said = run(tmp_path, "several", packages=packages).said
    listed = said.split("THE NEXT")

    assert "stands at the place. {signal: KILL} (chaos-example 1.0)" in listed[0]
    assert "Does every epoch end with a checkpoint? (chaos-example 1.0)" in listed[1]
    assert "fault kill_peers (chaos-example 1.0)" in listed[2]
    assert "signal: KILL unless given" in listed[2]
    assert "check every-epoch-saved (chaos-example 1.0)" in listed[3]
    assert "epoch-not-saved An epoch was committed without a checkpoint. (chaos-ex" in listed[4]
    assert "finding epoch-not-saved An epoch was committed without a checkpoint." in listed[5]


def test_mistakes_are_told_as_for_chaos_own_faults(tmp_path: Path) -> None:
    packages = install_examples(tmp_path)
    wrong = (
        "kill_peer: {}",
        "kill_peers: {signl: KILL}",
        "kill_peers: {signal: HUP}",
        "kill_peers: ",
    )
    entries = "".join(f"  - {{at: {{epoch: 1, step: 1}}, {entry}}}\n" for entry in wrong)
    (tmp_path / "x.chaos.yaml").write_text(
        f"scenario: s\njob: {{script: chaos_peers.py, workers: 2}}\nfaults:\n{entries}"
    )

    done = run(tmp_path, "chaos", "run", "x.chaos.yaml", packages=packages)

    assert done.code == 3
    assert (
        "x.chaos.yaml:4: unknown key 'kill_peer' in an entry of faults. Did you mean kill_peers? "
        "x.chaos.yaml:5: unknown key 'signl' in kill_peers. Did you mean signal? "
        "x.chaos.yaml:6: signal must be one of KILL, TERM, got 'HUP' "
        "x.chaos.yaml:7: kill_peers has no value. Write `kill_peers: {}`"
    ) in done.said


def test_an_expected_check_of_another_package_is_known_and_a_misspelt_one_answered(
    tmp_path: Path,
) -> None:
    packages = install_examples(tmp_path)
    (tmp_path / "x.chaos.yaml").write_text(
        "scenario: s\njob: {script: chaos_peers.py, workers: 2}\n"
        "expect:\n  verdict: fail\n  check: every-epoch-safed\n"
    )

    done = run(tmp_path, "chaos", "run", "x.chaos.yaml", packages=packages)

    assert done.code == 3
    assert "x.chaos.yaml:5: there is no check 'every-epoch-safed'" in done.said
    assert "Did you mean every-epoch-saved?" in done.said


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        (
            "epoch-not-savd=why",
            "there is no severity and no finding 'epoch-not-savd'. Did you mean ",
        ),
        ("epoch-not-saved", "the finding 'epoch-not-saved' is accepted without a reason"),
        ("epoch-not-saved=why", "--restart-args: --restart-args are for --restart command"),
    ],
)
def test_an_audit_accepts_a_finding_of_another_package(
    tmp_path: Path, word: str, problem: str
) -> None:
    packages = install_examples(tmp_path)
    contradiction = ("--restart", "launcher", "--restart-args", "x")  # refused after what is wrong

    done = run(
        tmp_path, "chaos", "audit", "x.py", "--accept", word, *contradiction, packages=packages
    )

    assert done.code == 3
    assert f"chaos: {problem}" in done.said or f"chaos: --accept: {problem}" in done.said


def test_the_fault_is_a_function_of_chaos_and_the_schema_knows_it(tmp_path: Path) -> None:
    packages = install_examples(tmp_path)
    (tmp_path / "ask.py").write_text(
        "import chaos\n"
        "made = chaos.kill_peers(epoch=1, step=2, rank=0, signal='TERM')\n"
        "print(made.kind, made.fault, made.at)\n"
    )

    asked = run(tmp_path, "ask", packages=packages).said
    schema = run(tmp_path, "chaos", "schema", packages=packages).said

    assert asked == "kill_peers kill_peers (TERM) epoch 1, step 2, rank 0"
    assert '"kill_peers": { "$ref": "#/$defs/KillPeers" }' in schema
    assert '{ "required": [ "kill_peers" ] }' in schema
