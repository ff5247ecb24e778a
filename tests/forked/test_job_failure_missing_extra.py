"""A job whose framework is not installed is passed over with its reason, and is neither verdict."""

import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from packaging.requirements import Requirement

from chaos.job_failure import EXTRAS, find_missing_module
from chaos.model import event as ev
from chaos.model.history import History
from tests.called import chaos
from tests.check.scribe import history_of
from tests.forked.conftest import ROOT

JOBS = ROOT / "tests/ray/jobs"
# The others are named alike.
MODULES = {"scikit-learn": "sklearn", "tf-keras": "tf_keras", "xgboost-cpu": "xgboost"}
TINY = "scenario: {0}\njob: {{script: {1}/tiny.py, workers: 1}}\n"
NEEDS = "scenario: {0}\njob: {{script: {1}/needs_an_extra.py, workers: 1, args: {2}}}\n"


def script_raised(message: str, error: str = "ModuleNotFoundError") -> History:
    return history_of(ev.ScriptRaised(error=error, message=message))


def in_a_worker(error: str) -> History:
    about: dict[str, Any] = {"attempt": 0, "decision": "RAISE", "charged": "failures"}
    return history_of(ev.FailureDecided(**about, error="WorkerGroupError", errors={0: error}))


@pytest.mark.parametrize(
    ("seen", "module"),
    [
        (script_raised("No module named 'xgboost'"), "xgboost"),
        (script_raised("PyTorch Lightning isn't installed. To install, …"), "lightning"),
        (script_raised("TensorFlow isn't installed. To install TensorFlow, run …"), "tensorflow"),
        (script_raised("No module named 'tf_keras'"), "tf_keras"),
        (in_a_worker("ModuleNotFoundError: No module named 'transformers'"), "transformers"),
        (script_raised("No module named 'my_own_code'"), None),
        (script_raised("No module named 'lightning.nothing'"), None),  # it is there, and lacks that
        (script_raised("No module named 'xgboost'", error="RuntimeError"), None),
        (in_a_worker("ValueError: ModuleNotFoundError: No module named 'xgboost'"), None),
        (history_of(), None),
    ],
)
def test_what_is_missing_is_ours_to_name_where_an_extra_installs_it(
    seen: History, module: str | None
) -> None:
    assert find_missing_module(seen) == module


def test_every_package_of_a_frameworks_extra_is_known_by_its_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for extra in sorted({*EXTRAS.values()}):
        names = {Requirement(line).name for line in extras[extra]}
        assert {MODULES.get(name, name) for name in names} <= {*EXTRAS}


@pytest.mark.timeout(180)
def test_a_suite_says_what_was_skipped_and_stands_on_what_ran(tmp_path: Path) -> None:
    (tmp_path / "a.chaos.yaml").write_text(NEEDS.format("imported first", JOBS, "{}"))
    (tmp_path / "b.chaos.yaml").write_text(NEEDS.format("imported late", JOBS, "{late: true}"))
    (tmp_path / "c.chaos.yaml").write_text(TINY.format("needs nothing", JOBS))

    ran = chaos("run", ".", "--backend", "fork", "--output", "junit.xml", folder=tmp_path)

    assert ran.code == 0, ran.out + ran.err
    reason = "needs lightning, which is not installed. pip install"
    assert ran.out.count(f"the job needs_an_extra.py {reason}") == 2
    assert ran.out.count("- skipped") == 2
    assert "✓ 1 as expected   - 2 skipped" in ran.out
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("skipped"), suite.get("errors"), suite.get("failures")) == ("2", "0", "0")


@pytest.mark.timeout(180)
def test_an_audit_of_such_a_job_says_what_to_install(tmp_path: Path) -> None:
    ran = chaos("audit", JOBS / "needs_an_extra.py", "--no-confirm", folder=tmp_path)

    assert ran.code == 3
    assert "[lightning]'" in " ".join(ran.err.split())
