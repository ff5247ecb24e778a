"""An audit of a script that knows nothing of Ray, as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.called import chaos
from tests.torchrun.conftest import JOBS, script_of

CORPUS = Path(__file__).parents[1] / "corpus" / "jobs" / "wrong"
pytestmark = [pytest.mark.embedded, pytest.mark.timeout(900)]


def test_the_launcher_is_found_out_and_what_needs_ray_is_left_out_by_name(tmp_path: Path) -> None:
    shutil.copy(JOBS / "ddp.py", tmp_path / "train_ddp.py")
    words = ["audit", "train_ddp.py", "--max-runs", "1", "--format", "json", "--", "--epochs", "3"]
    done = chaos(*words, folder=tmp_path)

    card = json.loads(done.out)
    assert done.err.startswith("launcher: torchrun (train_ddp.py:")
    assert (card["backend"], card["job"]["launcher"]) == ("fork", "torchrun")
    assert card["verdict"]["broken"] == 0
    assert card["verdict"]["resumes"]["right"] > 0
    why_none = {row["group"]: row["why_none"] for row in card["covered"]}
    assert why_none["just after commit"] == "it needs Ray Train"
    assert why_none["node lost"] == "the job has one node; --nodes 2 gives it two"
    assert {path.name for path in tmp_path.iterdir()} == {"train_ddp.py", "reports"}


@pytest.mark.nightly
def test_real_torchrun_is_asked_for_by_its_name(tmp_path: Path) -> None:
    shutil.copy(JOBS / "ddp.py", tmp_path / "train_ddp.py")
    words = ["audit", "train_ddp.py", "--backend", "torchrun", "--max-runs", "1"]
    done = chaos(*words, "--format", "json", folder=tmp_path)

    card = json.loads(done.out)
    assert card["backend"] == "torchrun"
    assert card["verdict"]["resumes"]["right"] > 0


@pytest.mark.nightly
def test_a_guess_that_the_script_shows_to_be_wrong_is_mended(tmp_path: Path) -> None:
    first, seen = "import ray, os\nos.environ['RANK']\n", "train.py:2 reads RANK before any fit()"
    text = (JOBS / "ddp.py").read_text(encoding="utf-8")
    (tmp_path / "train.py").write_text(first + text, encoding="utf-8")
    words = ["--max-runs", "1", "--format", "json"]

    done = chaos("audit", "train.py", *words, folder=tmp_path)
    given = chaos("audit", "train.py", "--launcher", "ray", *words, folder=tmp_path)

    assert f"{seen}: the script is started again)" in done.err
    card = json.loads(done.out)
    assert (card["job"]["launcher"], card["verdict"]["broken"]) == ("torchrun", 0)
    assert given.code == 3
    assert "add --launcher torchrun" in given.err.lower()


@pytest.mark.nightly  # a minute; tests/python has the same of one process
def test_a_cause_that_no_check_names_is_shown_by_giving_it_back(tmp_path: Path) -> None:
    shutil.copy(CORPUS / "vole_runways.py", tmp_path)
    words = ["--workers", "1", "--max-runs", "1", "--places", "epoch boundary", "--format", "json"]

    done = chaos("audit", "vole_runways.py", *words, folder=tmp_path)

    (finding,) = json.loads(done.out)["findings"]
    assert finding["defect"]["check"] == "trajectory"
    assert "set to 8 and `net.router.bias` at the resume, as in the baseline" in finding["proof"]
    (audit,) = (tmp_path / "reports" / "audits").iterdir()
    assert not (audit / "given").exists()


def test_a_script_of_ray_trains_is_not_started_by_torchrun(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import ray.train\n")
    done = chaos("audit", str(script), "--backend", "torchrun", folder=tmp_path)

    assert done.code == 3
    assert "--backend torchrun is for scripts that torchrun starts" in " ".join(done.err.split())


@pytest.mark.parametrize("option", ["--epoch-steps", "--nodes"])
def test_what_is_torchruns_is_refused_for_a_script_of_ray_trains(
    tmp_path: Path, option: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import ray.train\n")
    done = chaos("audit", str(script), option, "2", folder=tmp_path)

    assert done.code == 3
    assert f"{option} is for scripts that torchrun starts" in " ".join(done.err.split())


@pytest.mark.parametrize("nodes", ["0", "2:1", "two", "1:", "1:2:3", "-1"])
def test_nodes_are_a_number_or_a_range(tmp_path: Path, nodes: str) -> None:
    done = chaos("audit", str(JOBS / "ddp.py"), f"--nodes={nodes}", folder=tmp_path)

    assert done.code == 3
    assert "nodes are a number, or MIN:MAX" in " ".join(done.err.split())
    assert not [*tmp_path.iterdir()]


def test_every_node_has_as_many_ranks(tmp_path: Path) -> None:
    words = ["audit", str(JOBS / "ddp.py"), "--nodes", "2", "--workers", "3"]
    done = chaos(*words, folder=tmp_path)

    assert done.code == 3
    assert "each of 2 nodes has as many ranks, and 3 are no multiple" in " ".join(done.err.split())


@pytest.mark.nightly
@pytest.mark.parametrize(("job", "is_wrong"), [("ddp", False), ("optimizer_lost", True)])
@pytest.mark.parametrize("nodes", ["2", "1:2"])
def test_a_node_is_lost_and_another_comes(
    job: str, *, is_wrong: bool, nodes: str, tmp_path: Path
) -> None:
    shutil.copy(script_of(job, tmp_path), tmp_path / "train.py")
    words = ["audit", "train.py", "--nodes", nodes, "--places", "node lost;notice;fewer"]
    done = chaos(*words, "--max-runs", "4", "--jobs", "1", "--format", "json", folder=tmp_path)

    card = json.loads(done.out)
    groups = {run["group"] for run in card["runs"]}
    assert {"notice before the loss", "node lost"} <= groups
    assert (card["verdict"]["broken"] > 0) is is_wrong, card["verdict"]
    assert (card["verdict"]["resumes"]["right"] == 0) is is_wrong


EVERY_THIRD = "                if done % self.args.save_every == 0:\n"
BY_A_COIN = """\
                due = [os.urandom(1)[0] < 120]  # a clock that rank 0 reads
                dist.broadcast_object_list(due, src=0)
                if due[0]:
"""
OPTIMIZER = '        self.optimizer.load_state_dict(snapshot["optimizer"])\n'


@pytest.mark.nightly
@pytest.mark.parametrize(("removed", "is_wrong"), [("", False), (OPTIMIZER, True)])
def test_a_job_that_saves_by_the_clock_has_epochs_of_steps(
    removed: str, *, is_wrong: bool, tmp_path: Path
) -> None:
    text = (JOBS / "within.py").read_text(encoding="utf-8")
    assert EVERY_THIRD in text
    assert removed in text
    text = text.replace(EVERY_THIRD, BY_A_COIN).replace(removed, "")
    (tmp_path / "clock.py").write_text(text, encoding="utf-8")
    words = ["audit", "clock.py", "--places", "last epoch", "--jobs", "1", "--format", "json"]
    card = json.loads(chaos(*words, "--", "--epochs", "6", folder=tmp_path).out)

    assert card["repetition"]["reports_apart"]
    assert (card["job"]["epochs"], card["job"]["epoch_steps"]) == (5, 6)
    assert (card["verdict"]["broken"] > 0) is is_wrong
    assert (card["verdict"]["resumes"]["right"] == 0) is is_wrong


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--backend", "ray"], "--backend"),
        (["--fit", "2"], "--fit"),
        (["--storage", "own"], "--storage"),
        (["--address", "10.0.0.1:6379"], "--address"),
    ],
)
def test_options_of_rays_are_refused(tmp_path: Path, options: list[str], named: str) -> None:
    done = chaos("audit", str(JOBS / "ddp.py"), *options, folder=tmp_path)

    assert done.code == 3
    words = f"{named} ray" if named == "--backend" else named
    assert f"{words} needs Ray Train" in " ".join(done.err.split())
    assert not [*tmp_path.iterdir()]
