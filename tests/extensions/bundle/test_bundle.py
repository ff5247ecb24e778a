"""An audit's reproductions, for another machine and among one's own scenarios."""

import sys
import zipfile
from dataclasses import dataclass
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
    assert not (tmp_path / "out").exists()


@dataclass(frozen=True)
class Sent:
    """A bundle as its reader has it, and the last line that the command printed."""

    names: list[str]
    readme: str
    last_line: str


def send(folder: Path, patch: pytest.MonkeyPatch, job: str) -> Sent:
    """Bundle an audit whose finding is of another job than the audit's own."""
    path = audit(folder, patch)
    (scenario,) = (path / "repro").iterdir()
    scenario.write_text(f"scenario: it fails\njob: {job}\n")

    done = call_chaos("report", str(path), "--bundle", "new/sent.zip", folder=folder)

    assert done.code == 0, done.err
    with zipfile.ZipFile(folder / "new/sent.zip") as archive:
        names = [name.removeprefix("sent/") for name in archive.namelist()]
        readme = archive.read("sent/README.txt").decode()
    return Sent(names, readme, done.out.splitlines()[-1])


def test_a_script_without_a_suffix_is_in_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train").write_text("import steps\n")

    sent = send(tmp_path, monkeypatch, f"{{script: {tmp_path}/train, workers: 1}}")

    assert {"job/train", "job/steps.py"} < {*sent.names}
    assert "\n  job/train\n  job/steps.py\n" in sent.readme
    assert sent.last_line.endswith("as it is (2 files)")


def test_packages_that_are_installed_in_place_are_named_and_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, project = tmp_path / "library/tools", tmp_path / "home/project"
    library.mkdir(parents=True)
    project.mkdir(parents=True)
    (library / "__init__.py").write_text("import tools.inner\n")
    (library / "inner.py").touch()
    (project / "run.py").write_text("import chaos, steps, tools\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(library.parent)])

    sent = send(project, monkeypatch, f"{{script: {project}/run.py, workers: 1}}")

    assert [name for name in sent.names if name.endswith(".py")] == ["job/run.py", "job/steps.py"]
    assert "  the module chaos\n" in sent.readme
    assert "  the module tools\n" in sent.readme
    assert str(tmp_path) not in sent.readme


def test_what_a_script_for_sbatch_starts_is_named_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=1\nsrun python train.py\n")
    job = f"{{script: {tmp_path}/job.sbatch, launcher: slurm, workers: 1}}"

    sent = send(tmp_path, monkeypatch, job)

    assert "job/job.sbatch" in sent.names
    assert "\n\n  what job.sbatch starts\n" in sent.readme


def test_a_module_lies_where_python_finds_it_from_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    (tmp_path / "pkg/train.py").touch()

    sent = send(tmp_path, monkeypatch, "{module: pkg.train, launcher: torchrun, workers: 1}")

    assert {"pkg/__init__.py", "pkg/train.py"} < {*sent.names}
    assert "job/" not in sent.readme
    assert "\n  pkg/train.py\n" in sent.readme


def test_a_bundle_without_code_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = send(tmp_path, monkeypatch, "{module: no.train, launcher: torchrun, workers: 1}")

    assert "No code of the job is in it." in sent.readme
    assert "\n  the module no.train\n" in sent.readme
    assert sent.last_line.endswith(": no code of the job is in it")


def test_a_word_that_is_too_long_for_a_path_is_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = f"{{script: {tmp_path}/train.py, workers: 1, args: [--cfg, {'x' * 300}, steps.py]}}"

    sent = send(tmp_path, monkeypatch, job)

    assert sent.readme.endswith("bundle:\n\n  steps.py\n")


def test_a_zip_that_cannot_be_written_is_said_to_be_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = audit(tmp_path, monkeypatch)

    done = call_chaos("report", str(path), "--bundle", "train.py/a.zip", folder=tmp_path)

    assert done.code == 3
    assert "a.zip: cannot write there" in done.err


def test_a_script_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = audit(tmp_path, monkeypatch)

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "steps.py")

    monkeypatch.setattr("chaos.extensions.bundle.bundle.find_own_modules", fail)

    done = call_chaos("report", str(path), "--bundle", "a.zip", folder=tmp_path)

    assert done.code == 3
    assert "steps.py: cannot be read" in done.err
    assert not (tmp_path / "a.zip").exists()


@pytest.mark.parametrize("option", ["--bundle", "--keep"])
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--format", "json"), "--format"),
        (("--output", "new/a.md"), "--output"),
        (("--open",), "--open"),
        (("--trend",), "--trend"),
    ],
)
def test_options_of_other_reports_are_refused(
    tmp_path: Path, option: str, words: tuple[str, ...], name: str
) -> None:
    done = call_chaos("report", "audit", option, "out", *words, folder=tmp_path)

    assert done.code == 3
    assert f"{option} does not go with {name}" in done.err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("option", ["--bundle", "--keep"])
def test_reproductions_need_a_folder(tmp_path: Path, option: str) -> None:
    done = call_chaos("report", option, "out", folder=tmp_path)

    assert (done.code, "no folder is given" in done.err) == (3, True)
