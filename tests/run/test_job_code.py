import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.errors import JobError
from chaos.model.plan import Plan
from chaos.model.scenario import Job, Scenario
from chaos.plan.make import make_plan
from chaos.run.job_code import digest_job_code


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def planned(folder: Path, **job: object) -> Plan:
    scenario = Scenario(scenario="x", job=Job.model_validate({"workers": 1, **job}))
    return make_plan(scenario, file=Path("s/x.chaos.yaml"), seed=0, cwd=folder)


def names(folder: Path, plan: Plan, *python_path: str) -> set[str]:
    files = digest_job_code(plan, python_path=python_path)
    return {str(Path(file).relative_to(folder)) for file in files}


def test_a_script_alone_is_its_own_code(tmp_path: Path) -> None:
    written(tmp_path, {"s/job.py": "import json, os.path, torch\n"})

    digests = digest_job_code(planned(tmp_path, script="job.py"))

    content = (tmp_path / "s/job.py").read_bytes()
    assert digests == {str(tmp_path / "s/job.py"): hashlib.sha256(content).hexdigest()}


def test_imports_are_followed_wherever_they_are_written(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "s/job.py": "import a\ndef f():\n    from pkg.deep import thing\n",
            "s/a.py": "try:\n    import b\nexcept ImportError:\n    import job\n",
            "s/b.py": "",
            "s/pkg/__init__.py": "from . import near\n",
            "s/pkg/near.py": "from .. import nothing\n",
            "s/pkg/deep/__init__.py": "",
            "s/pkg/deep/thing.py": "from ..other import X\nfrom .beside import Y\n",
            "s/pkg/deep/beside.py": "",
            "s/pkg/other.py": "",
            "s/pkg/unused.py": "",
            "s/unused.py": "",
        },
    )

    assert names(tmp_path / "s", planned(tmp_path, script="job.py")) == {
        "job.py",
        "a.py",
        "b.py",
        "pkg/__init__.py",
        "pkg/near.py",
        "pkg/deep/__init__.py",
        "pkg/deep/thing.py",
        "pkg/deep/beside.py",
        "pkg/other.py",
    }


def test_modules_are_found_in_the_working_directory_and_on_the_python_path(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "s/job.py": "import one, two, three, four\n",
            "one.py": "",
            "own/two.py": "",
            "given/three.py": "",
            "lib/site-packages/four.py": "",
        },
    )
    plan = planned(tmp_path, script="job.py", env={"PYTHONPATH": f"own:{tmp_path}/nowhere"})

    found = names(tmp_path, plan, str(tmp_path / "given"), str(tmp_path / "lib/site-packages"))

    assert found == {"s/job.py", "one.py", "own/two.py", "given/three.py"}


def test_the_scripts_folder_comes_first_as_it_does_in_python(tmp_path: Path) -> None:
    written(tmp_path, {"s/job.py": "import a\n", "s/a.py": "", "a.py": ""})

    assert names(tmp_path, planned(tmp_path, script="job.py")) == {"s/job.py", "s/a.py"}


def test_folders_without_init_hold_modules_too(tmp_path: Path) -> None:
    written(tmp_path, {"s/job.py": "from space.part import x\n", "space/part.py": ""})

    assert names(tmp_path, planned(tmp_path, script="job.py")) == {"s/job.py", "space/part.py"}


def test_a_package_installed_in_place_is_the_users_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(
        tmp_path,
        {
            "s/job.py": "import inplace_package.part, inplace_module\n",
            "src/inplace_package/__init__.py": "",
            "src/inplace_package/part.py": "",
            "src/inplace_module.py": "",
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path / "src"))

    assert names(tmp_path, planned(tmp_path, script="job.py")) == {
        "s/job.py",
        "src/inplace_package/__init__.py",
        "src/inplace_package/part.py",
        "src/inplace_module.py",
    }
    assert "inplace_package" not in sys.modules


def test_a_train_loop_is_its_module_and_what_that_imports(tmp_path: Path) -> None:
    written(
        tmp_path,
        {"pkg/__init__.py": "", "pkg/train.py": "from .model import Net\n", "pkg/model.py": ""},
    )

    found = names(tmp_path, planned(tmp_path, train_loop="pkg.train:loop"))

    assert found == {"pkg/__init__.py", "pkg/train.py", "pkg/model.py"}


def test_a_module_is_what_python_runs_for_it_and_its_packages(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "pkg/__init__.py": "",
            "pkg/jobs/__init__.py": "from . import near\n",
            "pkg/jobs/near.py": "",
            "pkg/jobs/__main__.py": "from ..model import Net\n",
            "pkg/model.py": "",
            "pkg/other.py": "",
        },
    )
    package = {"pkg/__init__.py", "pkg/jobs/__init__.py", "pkg/jobs/near.py"}

    assert names(tmp_path, planned(tmp_path, module="pkg.jobs")) == {
        *package,
        "pkg/jobs/__main__.py",
        "pkg/model.py",
    }
    assert names(tmp_path, planned(tmp_path, module="pkg.jobs.near")) == package


def test_inputs_count_and_a_folder_of_them_by_its_files(tmp_path: Path) -> None:
    written(tmp_path, {"s/job.py": "", "s/d.csv": "1", "s/more/a/b.bin": "2"})
    plan = planned(tmp_path, script="job.py", inputs=("d.csv", "more"))

    assert names(tmp_path / "s", plan) == {"job.py", "d.csv", "more/a/b.bin"}


@pytest.mark.parametrize("text", ["def f(:\n", "x = 'a\0b'\n", "(" * 5000 + ")" * 5000])
def test_code_that_does_not_parse_is_digested_anyway(tmp_path: Path, text: str) -> None:
    written(tmp_path, {"s/job.py": "import bad\n", "s/bad.py": text})

    assert names(tmp_path / "s", planned(tmp_path, script="job.py")) == {"job.py", "bad.py"}


def test_odd_escapes_in_a_job_are_not_our_warnings(tmp_path: Path) -> None:
    written(tmp_path, {"s/job.py": "x = '\\d'\nimport a\n", "s/a.py": ""})

    assert names(tmp_path / "s", planned(tmp_path, script="job.py")) == {"job.py", "a.py"}


def test_a_script_that_is_gone_is_a_job_error(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="No such file") as caught:
        digest_job_code(planned(tmp_path, script="job.py"))

    assert caught.value.location == str(tmp_path / "s/job.py")


def test_an_edit_anywhere_in_the_code_changes_the_digests(tmp_path: Path) -> None:
    written(tmp_path, {"s/job.py": "import a\n", "s/a.py": ""})
    plan = planned(tmp_path, script="job.py")
    before = digest_job_code(plan)
    written(tmp_path, {"s/a.py": "x = 1\n"})

    after = digest_job_code(plan)

    assert {file for file in after if after[file] != before[file]} == {str(tmp_path / "s/a.py")}
