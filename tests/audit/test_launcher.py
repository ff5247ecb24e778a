"""The launcher of a script is found out by its text."""

from pathlib import Path

import pytest

from chaos.audit.launcher import found_launcher, launcher_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "launcher"),
    [
        ("import torch.distributed as dist\ndist.init_process_group('gloo')\n", "torchrun"),
        ("from torch.distributed import init_process_group\ninit_process_group()\n", "torchrun"),
        ("import ray.train\nimport torch\ntorch.distributed.init_process_group()\n", "ray"),
        ("from ray.train.torch import TorchTrainer\nTorchTrainer(f).fit()\n", "ray"),
        ("from .ray import x\nx.init_process_group()\n", "torchrun"),
        ("print('init_process_group')\n", "ray"),
        ("def broken(:\n", "ray"),
    ],
)
def test_a_script_without_ray_that_joins_a_group_is_torchruns(source: str, launcher: str) -> None:
    assert launcher_of(source) == launcher


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate import Accelerator\nAccelerator()\n",
        "import accelerate\naccelerate.Accelerator(cpu=True)\n",
        "from transformers import Trainer, TrainingArguments\nTrainer(model).train()\n",
        "import transformers as t\nclass Mine(t.Trainer):\n    pass\n",
        "from trl import SFTTrainer\nSFTTrainer().train()\n",
        "import lightning as L\nL.Trainer(max_epochs=2).fit(model)\n",
        "import lightning.pytorch as pl\npl.Trainer().fit(model)\n",
        "from pytorch_lightning import Trainer as T\nT().fit(model)\n",
        "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model)\n",
        "from lightning.fabric import Fabric\nFabric()\n",
        "import deepspeed\ndeepspeed.initialize(model=model)\n",
    ],
)
def test_a_library_that_joins_the_group_by_itself_is_torchruns_unless_ray_is_there(
    source: str,
) -> None:
    assert launcher_of(source) == "torchrun"
    assert launcher_of(source + "import ray.train\n") == "ray"
    assert launcher_of(source + "from ray.train.torch import TorchTrainer\n") == "ray"


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import AutoModel\nAutoModel.from_pretrained('x')\n",
        "from accelerate.utils import set_seed\nset_seed(1)\n",
        "from mine import Trainer\nTrainer().fit()\n",
        "import lightning as L\nclass Model(L.LightningModule):\n    pass\n",
        "from .accelerate import Accelerator\nAccelerator()\n",
    ],
)
def test_a_name_alone_joins_no_group(source: str) -> None:
    assert launcher_of(source) == "ray"


@pytest.mark.parametrize(
    ("modules", "launcher"),
    [
        ({"setup": "import torch\ntorch.distributed.init_process_group()\n"}, "torchrun"),
        ({"setup": "import deep\n", "deep": "from trl import A\nA.Trainer()\n"}, "torchrun"),
        ({"setup": "from .a import b\n", "setup.a": "init_process_group()\n"}, "torchrun"),
        ({"setup": "import ray\ninit_process_group()\n"}, "ray"),
        ({"setup": "init_process_group()\nimport deep\n", "deep": "import ray.train\n"}, "ray"),
        ({"setup": "import setup\n"}, "ray"),
        ({}, "ray"),
    ],
)
def test_modules_beside_an_undecided_script_decide(modules: dict[str, str], launcher: str) -> None:
    assert launcher_of("from setup import join\njoin()\n", modules.get) == launcher


def test_what_a_script_says_itself_is_not_outvoted_by_modules_beside_it() -> None:
    joins = "import helpers\ninit_process_group()\n"

    assert launcher_of(joins, {"helpers": "import ray\n"}.get) == "torchrun"
    assert launcher_of("import ray, helpers\n", {"helpers": joins}.get) == "ray"


def test_modules_are_read_from_the_scripts_folder_and_packages_in_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from utils import *\nsetup()\n", encoding="utf-8")
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils/__init__.py").write_text("from .env import setup\n", encoding="utf-8")
    (tmp_path / "utils/env.py").write_text("dist.init_process_group()\n", encoding="utf-8")

    assert found_launcher(tmp_path / "train.py") == "torchrun"


@pytest.mark.parametrize(
    "job", sorted(ROOT.glob("scenarios/**/*.py")), ids=lambda job: str(job.relative_to(ROOT))
)
def test_no_job_of_ray_trains_is_mistaken_for_torchruns(job: Path) -> None:
    imports_ray = "ray" in job.read_text(encoding="utf-8")

    assert found_launcher(job) == "ray" or not imports_ray


# What trains nothing joins no group.
JOBS = [job for job in ROOT.glob("tests/torchrun/jobs/*.py") if job.stem != "facts"]


@pytest.mark.parametrize("job", sorted(JOBS), ids=lambda p: p.stem)
def test_the_jobs_of_the_tests_are_recognized(job: Path) -> None:
    text = job.read_text(encoding="utf-8")

    assert launcher_of(text) == "torchrun"
    assert "chaos" not in text
