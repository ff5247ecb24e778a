"""The launcher of a script is found out by its text, and by those that it reaches."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.run.modules import ModuleFile
from chaos.run.script_launcher import LauncherEvidence, find_launcher_evidence

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize(
    ("source", "launcher"),
    [
        (JOINS, "torchrun"),
        ("from torch.distributed import init_process_group\ninit_process_group()\n", "torchrun"),
        ("import ray.train\nimport torch\ntorch.distributed.init_process_group()\n", "ray"),
        ("from ray.train.torch import TorchTrainer\nTorchTrainer(f).fit()\n", "ray"),
        ("def main():\n    import ray.train.torch as rt\n    rt.TorchTrainer(f).fit()\n", "ray"),
        ("if __name__ == '__main__':\n    import ray\n", "ray"),
        ("from .ray import x\nx.init_process_group()\n", "torchrun"),
        ("print('init_process_group')\n", "python"),
        ("import torch\nprint('from ray import train')\n", "python"),
        ("def broken(:\n", "python"),
        ("import os\nrank = int(os.environ.get('RANK', 0))\n", "torchrun"),
        ("import os\nos.environ['RANK'] = '0'\n", "python"),
        ("from tools import number\nworld = number('WORLD_SIZE')\n", "torchrun"),
        ("parser.add_argument('--local-rank', type=int)\n", "torchrun"),
        ("import torch.multiprocessing as mp\nmp.spawn(f, nprocs=2)\n", "python"),
        ("import torch\ntorch.multiprocessing.start_processes(f)\n" + JOINS, "python"),
        ("from accelerate import Accelerator, notebook_launcher as n\nn(f)\n", "python"),
        ("from multiprocessing import Process\nProcess(target=f)\n" + JOINS, "python"),
        ("from multiprocessing import Process\nProcess(target=f)\nRANK = x['RANK']\n", "torchrun"),
        ("import torch_xla as mp\nmp.spawn(f)\n" + JOINS, "torchrun"),
    ],
)
def test_the_launcher_is_the_one_that_the_script_asks_for(
    tmp_path: Path, source: str, launcher: str
) -> None:
    assert of(tmp_path, source).launcher == launcher


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import ray\nexcept ImportError:\n    ray = None\n",
        "if args.search:\n    import ray.data\n",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import ray\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ray\n",
    ],
)
def test_ray_that_a_script_can_do_without_is_not_needed(tmp_path: Path, source: str) -> None:
    assert of(tmp_path, source) == LauncherEvidence()
    made = of(tmp_path, source + "from ray.train.torch import TorchTrainer as T\nT(f).fit()\n")
    assert made.launcher == "ray"


@pytest.mark.parametrize(
    "source",
    [
        "from accelerate import Accelerator\nAccelerator()\n",
        "import accelerate\naccelerate.Accelerator(cpu=True)\n",
        "from transformers import Trainer\nTrainer(m).is_world_process_zero()\n",
        "import lightning as L\nL.Trainer(devices=2).fit(model)\n",
        "import lightning.pytorch as pl\npl.Trainer(strategy='ddp').fit(model)\n",
        "from pytorch_lightning import Trainer as T\nT().fit(model)  # under torchrun\n",
        "from lightning.fabric import Fabric\nFabric()\n",
    ],
)
def test_a_library_that_joins_the_group_by_itself_is_torchruns_unless_ray_is_there(
    tmp_path: Path, source: str
) -> None:
    evidence = of(tmp_path, source)
    assert evidence == LauncherEvidence(library_group=f"{tmp_path}/train.py:2")
    assert evidence.is_for_any_rank_count
    assert of(tmp_path, source + "import ray.train\n").launcher == "ray"
    torch_trainer = "from ray.train.torch import TorchTrainer\n"
    assert of(tmp_path, source + torch_trainer).launcher == "ray"


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import Trainer, TrainingArguments\nTrainer(model).train()\n",
        "import transformers as t\nclass Mine(t.Trainer):\n    pass\n",
        "from trl import SFTTrainer\nSFTTrainer().train()\n",
        "import lightning as L\nL.Trainer(max_epochs=2, devices=1).fit(model)\n",
        "import lightning as L\nL.Trainer(devices=[0]).fit(model)  # our strategy\n",
        "import lightning.pytorch as pl\npl.Trainer().fit(model)\n",
        "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model)\n",
    ],
)
def test_a_trainer_in_a_script_that_says_nothing_of_ranks_trains_alone(
    tmp_path: Path, source: str
) -> None:
    """A right script for one process was blamed: both of two ranks marked a save as done."""
    evidence = of(tmp_path, source)
    assert evidence == LauncherEvidence(lone_trainer=f"{tmp_path}/train.py:2")
    assert evidence.launcher == evidence.add_workers(1).launcher == "python"
    assert evidence.add_workers(2).launcher == "torchrun"
    assert of(tmp_path, source + "import ray.train\n").launcher == "ray"
    (tmp_path / "mine.py").write_text("def is_first(): return local_rank == 0\n")
    assert of(tmp_path, "import mine\n" + source).launcher == "torchrun"


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
def test_a_name_alone_joins_no_group(tmp_path: Path, source: str) -> None:
    evidence = of(tmp_path, source)
    assert (evidence.group, evidence.library_group) == (None, None)
    assert evidence.lone_trainer is None


@pytest.mark.parametrize(
    "source",
    [
        "import deepspeed\ndeepspeed.initialize(model=model)\n",
        "from accelerate import Accelerator\nAccelerator()\n" + JOINS,
        "import os\nfrom accelerate import Accelerator\nAccelerator()\nos.environ['RANK']\n",
    ],
)
def test_a_script_that_needs_a_launcher_trains_in_no_single_process(
    tmp_path: Path, source: str
) -> None:
    evidence = of(tmp_path, source)
    assert evidence.launcher == "torchrun"
    assert not evidence.is_for_any_rank_count


RAYS = "from ray.train.torch import TorchTrainer\n\ndef train():\n    TorchTrainer(f).fit()\n"
FIT = "from trainer import train\ntrain()\n"
SPAWNS = "import torch.multiprocessing as mp\nmp.spawn(f)\n"


@pytest.mark.parametrize(
    ("files", "launcher", "said"),
    [
        ({"trainer.py": JOINS}, "torchrun", "trainer.py:2 joins a group of processes"),
        ({"trainer.py": "import deep\n", "deep.py": JOINS}, "torchrun", "deep.py:2 joins"),
        ({"trainer/__init__.py": "from .a import b\n", "trainer/a.py": RAYS}, "ray", "a.py:1"),
        (
            {"trainer/__init__.py": "from . import (  # noqa\n    a,\n)\n", "trainer/a.py": RAYS},
            "ray",
            "trainer/a.py:1 imports Ray",
        ),
        ({"trainer.py": RAYS + JOINS}, "ray", "trainer.py:1 imports Ray"),
        ({"trainer.py": JOINS + "import deep\n", "deep.py": RAYS}, "ray", "deep.py:1"),
        ({"trainer.py": "import launch\n" + JOINS, "launch.py": SPAWNS}, "python", "launch.py:2"),
        ({"trainer.py": "import trainer, train\n"}, "python", "no need for Ray or torchrun"),
        ({}, "python", "no need for Ray or torchrun"),
        # What is asked for in a function of a library is for few of its users.
        ({"trainer.py": "def search():\n    import ray\n    ray.init()\n"}, "python", "no need"),
        ({"trainer.py": '"""\nimport ray\n"""\n'}, "python", "no need for Ray or torchrun"),
        (
            {"trainer.py": "import ray\n", "ray.py": "x = 1\n"},
            "python",
            "no need for Ray or torchrun was seen",
        ),
        (
            {"trainer.py": "import ray\n", "ray/__init__.py": ""},
            "python",
            "no need for Ray or torchrun was seen",
        ),
    ],
)
def test_modules_of_an_undecided_script_decide(
    tmp_path: Path, files: dict[str, str], launcher: str, said: str
) -> None:
    found = of(tmp_path, {"train.py": FIT, **files})

    assert found.launcher == launcher
    assert said in str(found)


def test_what_a_script_says_itself_is_not_outvoted_by_modules_beside_it(tmp_path: Path) -> None:
    joins = "import helpers\n" + JOINS

    assert of(tmp_path, {"train.py": joins, "helpers.py": "import ray\n"}).launcher == "torchrun"
    assert (
        of(tmp_path, {"train.py": "import ray, helpers\n", "helpers.py": JOINS}).launcher == "ray"
    )


def test_a_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        find_launcher_evidence(ModuleFile(tmp_path / "train.py"))


@pytest.mark.parametrize(
    "job", sorted(ROOT.glob("scenarios/**/*.py")), ids=lambda job: str(job.relative_to(ROOT))
)
def test_no_job_of_ray_trains_is_mistaken_for_another_launchers(job: Path) -> None:
    imports_ray = "ray" in job.read_text(encoding="utf-8")

    assert (find_launcher_evidence(ModuleFile(job)).launcher == "ray") == imports_ray


def test_a_rank_that_is_handed_over_was_given_by_what_another_module_starts(
    tmp_path: Path,
) -> None:
    handed = "import launch\nimport torch.distributed as dist\ndist.init_process_group(rank=r)\n"
    files = {"train.py": handed, "launch.py": SPAWNS}

    assert of(tmp_path, files).launcher == "python"
    assert of(tmp_path, {**files, "train.py": "import launch\n" + JOINS}).launcher == "torchrun"
    assert of(tmp_path, {**files, "launch.py": "import ray\n"}).launcher == "torchrun"


# What trains nothing joins no group.
JOBS = [job for job in ROOT.glob("tests/torchrun/jobs/*.py") if job.stem != "facts"]


@pytest.mark.parametrize("job", sorted(JOBS), ids=lambda p: p.stem)
def test_the_jobs_of_the_tests_are_recognized(job: Path) -> None:
    found = find_launcher_evidence(ModuleFile(job))

    assert found.group is not None
    assert "chaos" not in job.read_text(encoding="utf-8")
