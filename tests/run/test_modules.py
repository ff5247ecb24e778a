"""Modules are looked up as Python does, and none is imported."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.run.modules import ModuleFile
from chaos.run.script_launcher import LauncherEvidence, find_launcher_evidence

JOINS = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"


def written(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def of(folder: Path, files: Mapping[str, str] | str, *, module: str = "") -> LauncherEvidence:
    written(folder, {"train.py": files} if isinstance(files, str) else files)
    script = module.replace(".", "/") + ".py" if module else "train.py"
    return find_launcher_evidence(ModuleFile(folder / script, module, module.rpartition(".")[0]))


RAYS = "from ray.train.torch import TorchTrainer\n\ndef train():\n    TorchTrainer(f).fit()\n"


@pytest.mark.parametrize("layout", ["lib", "src", "train"])
def test_modules_are_found_on_the_path_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    files = {
        f"{layout}/company/__init__.py": "raise AssertionError('it was imported')\n",
        f"{layout}/company/jobs/main.py": "from ..loops import run\n",  # jobs has no __init__
        f"{layout}/company/loops.py": RAYS,
    }
    if layout == "lib":  # on PYTHONPATH, or installed in place
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / layout)])
    monkeypatch.chdir(tmp_path)
    script = "from company.jobs.main import run\nrun()\n"

    written(tmp_path, {"train/run/train.py": script, **files})
    found = find_launcher_evidence(ModuleFile(Path("train/run/train.py")))

    assert str(found).split() == [f"{layout}/company/loops.py:1", "imports", "Ray"]
    assert "company" not in sys.modules


@pytest.mark.parametrize(
    ("top", "launcher"),
    [
        ("import ray\n", "ray"),
        ("try:\n    import ray\nexcept ImportError:\n    ray = None\n", "python"),
        ("def search():\n    import ray\n", "python"),
        ("from raytracer import ray\n", "python"),
    ],
)
def test_of_an_installed_package_counts_what_is_always_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str, launcher: str
) -> None:
    site = tmp_path / "site-packages"
    files = {
        "site-packages/fleet/__init__.py": "from .api import train\n",
        "site-packages/fleet/api.py": "import another\n" + top,
        "site-packages/another.py": "import ray\n",  # a package further is another's matter
    }
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])

    assert of(tmp_path, {"train.py": "import fleet\n", **files}).launcher == launcher
    assert of(tmp_path, {"train.py": "import fleet\n" + JOINS, **files}).launcher == "torchrun"


def test_a_module_is_looked_up_from_where_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"pkg/__init__.py": "", "pkg/jobs/main.py": "from ..loops import run\n"}

    assert of(tmp_path, {**files, "pkg/loops.py": RAYS}, module="pkg.jobs.main").launcher == "ray"
    assert of(tmp_path, {**files, "pkg/loops.py": JOINS}, module="pkg.jobs.main").group
    # An import of it runs its packages first.
    assert of(tmp_path, {**files, "pkg/__init__.py": RAYS}, module="pkg.jobs.main").ray
