"""An audit's reproductions, for another machine and among one's own scenarios."""

import zipfile
from pathlib import Path

import pytest

import chaos.app.audit
from chaos.scenario_file.load import load_scenario
from tests.audit.backend import Defect, FakeBackend, loses_momentum
from tests.called import chaos as call_chaos


def audit(folder: Path, patch: pytest.MonkeyPatch, defect: Defect | None = loses_momentum) -> Path:
    """Audit a script that imports a module beside it; return the audit's folder."""
    (folder / "train.py").write_text("import ray.train\nimport steps\n")
    (folder / "steps.py").write_text("import torch\n")
    patch.setattr(chaos.app.audit, "open_launcher", lambda *_: FakeBackend(defect=defect))
    call_chaos("audit", "train.py", "--max-runs", "7", "--jobs", "1", "-q", folder=folder)
    (path,) = (folder / "reports/audits").iterdir()
    return path


def test_a_bundle_has_all_that_another_machine_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = audit(tmp_path, monkeypatch)
    bundle, target = tmp_path / "for-others.zip", tmp_path / "elsewhere"

    done = call_chaos("report", str(path), "--bundle", str(bundle), folder=tmp_path)

    assert done.code == 0
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(target)
    root = target / "for-others"
    assert (root / "job/train.py").read_text() == (tmp_path / "train.py").read_text()
    assert (root / "job/steps.py").read_text() == (tmp_path / "steps.py").read_text()
    assert {"card.html", "summary.md", "audit.json", "versions.txt", "README.txt"} < {
        file.name for file in root.iterdir()
    }
    (scenario,) = (root / "repro").iterdir()
    script = load_scenario(scenario).job.script
    assert script is not None
    assert (scenario.parent / script).resolve() == (root / "job/train.py").resolve()
    assert f"chaos run repro/{scenario.name}" in (root / "README.txt").read_text()
    assert str(tmp_path) not in scenario.read_text()


def test_a_kept_scenario_finds_its_script_from_its_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = audit(tmp_path, monkeypatch)

    done = call_chaos("report", str(path), "--keep", "scenarios", folder=tmp_path)

    assert (done.code, done.out) == (0, "scenarios/train_trajectory.chaos.yaml\n")
    kept = tmp_path / "scenarios/train_trajectory.chaos.yaml"
    assert load_scenario(kept).job.script == "../train.py"
    kept.write_text("scenario: mine\n")
    again = call_chaos("report", str(path), "--keep", "scenarios", folder=tmp_path)
    assert again.code == 3
    assert "another file has this name" in again.err
    assert kept.read_text() == "scenario: mine\n"


@pytest.mark.parametrize("option", ["--bundle", "--keep"])
def test_an_audit_without_a_finding_has_nothing_to_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    path = audit(tmp_path, monkeypatch, None)

    done = call_chaos("report", str(path), option, "out", folder=tmp_path)

    assert done.code == 3
    assert "has no reproduction" in done.err
    assert not (tmp_path / "out").is_file()
